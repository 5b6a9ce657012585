#include "kernels/cuda/decode/decode_geometry.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/decode/decode_params.h"
#include "kernels/task_graph/graph_shape.h"
#include "kernels/task_graph/task_graph_builder.h"

namespace baton::cuda {
namespace {

constexpr int kMaxExperts = 256;

absl::Status Refuse(const char* what, const char* wanted, int64_t found) {
  return absl::FailedPreconditionError(
      absl::StrCat("the CUDA decode kernel cannot run this geometry: ", what, ": wanted ", wanted,
                   ", found ", found));
}

absl::Status CheckWidths(const ModelConfig& config) {
  if (config.hidden % 16 != 0) return Refuse("hidden_size", "a multiple of 16", config.hidden);
  for (const LayerConfig& layer : config.layers) {
    if (layer.ffn_width % 16 != 0)
      return Refuse("feed-forward width", "a multiple of 16", layer.ffn_width);
  }
  if (config.shared_width % 16 != 0)
    return Refuse("shared expert width", "a multiple of 16", config.shared_width);
  return absl::OkStatus();
}

// The routing of a layer reaches a worker's loader and consumers as the phase of one barrier, which
// they tell from the last layer's only if they have work there in every layer up to it; and Down
// takes the list of experts that its worker's GateUp waited for.
absl::Status CheckRoutedRows(const ModelConfig& config, int worker_count) {
  for (int worker = 0; worker < worker_count; ++worker) {
    const bool has_down = !OwnedUnits(UnitsFor(config.hidden), worker, worker_count).empty();
    bool gap = false;
    for (const LayerConfig& layer : config.layers) {
      const bool has_rows =
          !OwnedUnits(layer.ffn_width, worker, worker_count).empty() ||
          (!layer.dense && !OwnedUnits(config.shared_width, worker, worker_count).empty());
      if (has_rows ? gap : has_down) {
        return Refuse(
            "feed-forward width",
            "rows for every multiprocessor that has rows of the hidden size or of a later "
            "layer",
            layer.ffn_width);
      }
      gap |= !has_rows;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDecodeGeometry(const ModelConfig& config, int worker_count) {
  if (config.head_dim != kHeadDim) return Refuse("head_dim", "128", config.head_dim);
  if (config.query_heads / config.kv_heads > kMaxGroup)
    return Refuse("query heads a KV head", "at most 8", config.query_heads / config.kv_heads);
  if (config.expert_count > kMaxExperts)
    return Refuse("num_experts", "at most 256", config.expert_count);
  if (config.experts_per_token > kMaxTopK)
    return Refuse("num_experts_per_tok", "at most 16", config.experts_per_token);
  if (config.layers.size() >= kEpochLayers - 1)
    return Refuse("num_hidden_layers", "at most 1022", config.layers.size());
  if (config.kv_heads > worker_count)
    return Refuse("num_key_value_heads", "at most one a multiprocessor", config.kv_heads);
  if (worker_count / config.kv_heads > kMaxSplits)
    return Refuse("multiprocessors a KV head", "at most 255", worker_count / config.kv_heads);
  BATON_RETURN_IF_ERROR(CheckWidths(config));
  return CheckRoutedRows(config, worker_count);
}

absl::Status CheckDecodePages(int64_t pages) {
  if (pages <= kMaxRowPages) return absl::OkStatus();
  return Refuse("pages a row", "at most 65535 (4,194,240 tokens)", pages);
}

}  // namespace baton::cuda
