#include "kernels/cuda/decode/decode_geometry.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/decode/decode_params.h"

namespace baton::cuda {
namespace {

constexpr int kMaxExperts = 256;
constexpr int kMaxExpertsPerToken = 16;

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

}  // namespace

absl::Status CheckDecodeGeometry(const ModelConfig& config, int worker_count) {
  if (config.head_dim != kHeadDim) return Refuse("head_dim", "128", config.head_dim);
  if (config.query_heads / config.kv_heads > kMaxGroup)
    return Refuse("query heads a KV head", "at most 8", config.query_heads / config.kv_heads);
  if (config.expert_count > kMaxExperts)
    return Refuse("num_experts", "at most 256", config.expert_count);
  if (config.experts_per_token > kMaxExpertsPerToken)
    return Refuse("num_experts_per_tok", "at most 16", config.experts_per_token);
  if (config.kv_heads > worker_count)
    return Refuse("num_key_value_heads", "at most one a multiprocessor", config.kv_heads);
  return CheckWidths(config);
}

}  // namespace baton::cuda
