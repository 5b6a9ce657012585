#include "kernels/models/weight_binder.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "kernels/models/quoted.h"

namespace baton {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Whether every element is zero (of either sign).
bool IsZero(const TensorView& tensor) {
  std::vector<float> values(4096);
  for (int64_t first = 0; first < tensor.ElementCount();) {
    const int64_t count =
        std::min<int64_t>(tensor.ElementCount() - first, static_cast<int64_t>(values.size()));
    CopyToFloat(tensor, first, count, values.data());
    if (!std::all_of(values.begin(), values.begin() + count, [](float v) { return v == 0; })) {
      return false;
    }
    first += count;
  }
  return true;
}

}  // namespace

WeightBinder::WeightBinder(const ModelConfig& config,
                           const std::vector<std::unique_ptr<SafetensorsFile>>& files,
                           std::string source)
    : config_(config), files_(files), source_(std::move(source)) {}

absl::StatusOr<WeightSet> WeightBinder::Bind() {
  BATON_RETURN_IF_ERROR(IndexFiles());
  WeightSet weights;
  weights.embedding = Take(kEmbeddingTensor, {config_.vocab, config_.hidden});
  weights.final_norm = Take("model.norm.weight", {config_.hidden});
  weights.head =
      config_.tied_head ? weights.embedding : Take(kHeadTensor, {config_.vocab, config_.hidden});
  for (int i = 0; i < config_.layer_count && status_.ok(); ++i) {
    weights.layers.push_back(TakeLayer(i));
  }
  weights.total_bytes = taken_bytes_;
  BATON_RETURN_IF_ERROR(status_);
  BATON_RETURN_IF_ERROR(CheckLeftovers());
  return weights;
}

absl::Status WeightBinder::IndexFiles() {
  for (const std::unique_ptr<SafetensorsFile>& file : files_) {
    for (const SafetensorsEntry& entry : file->entries()) {
      const auto [found, is_new] = sources_.try_emplace(entry.name, Source{file.get()});
      if (!is_new) {
        return absl::InvalidArgumentError(absl::StrCat(file->path(), ": tensor ",
                                                       Quoted(entry.name), " is also in ",
                                                       found->second.file->path()));
      }
    }
  }
  return absl::OkStatus();
}

LayerWeights WeightBinder::TakeLayer(int layer_id) {
  const std::string prefix = absl::StrCat("model.layers.", layer_id, ".");
  const std::string mlp = absl::StrCat(prefix, "mlp.");
  const int64_t hidden = config_.hidden;
  const int64_t query_width = int64_t{config_.query_heads} * config_.head_dim;
  const int64_t kv_width = int64_t{config_.kv_heads} * config_.head_dim;
  const LayerConfig& kind = config_.layers[layer_id];

  LayerWeights layer;
  layer.norm = Take(absl::StrCat(prefix, "input_layernorm.weight"), {hidden});
  layer.q = Take(absl::StrCat(prefix, "self_attn.q_proj.weight"), {query_width, hidden});
  layer.k = Take(absl::StrCat(prefix, "self_attn.k_proj.weight"), {kv_width, hidden});
  layer.v = Take(absl::StrCat(prefix, "self_attn.v_proj.weight"), {kv_width, hidden});
  layer.o = Take(absl::StrCat(prefix, "self_attn.o_proj.weight"), {hidden, query_width});
  if (kind.dense) {
    TakeGated(mlp, kind.ffn_width, layer);
    return layer;
  }
  layer.router = Take(absl::StrCat(mlp, "gate.weight"), {config_.expert_count, hidden});
  if (config_.shared != SharedExperts::kNone) {
    TakeGated(absl::StrCat(mlp, "shared_experts."), config_.shared_width, layer);
  }
  const std::string experts = absl::StrCat(mlp, "experts.");
  if (Has(absl::StrCat(experts, "gate_up_proj"))) {
    TakeFusedExperts(experts, layer);
  } else {
    TakeExperts(experts, layer);
  }
  return layer;
}

void WeightBinder::TakeGated(const std::string& prefix, int width, LayerWeights& layer) {
  layer.gate = Take(absl::StrCat(prefix, "gate_proj.weight"), {width, config_.hidden});
  layer.up = Take(absl::StrCat(prefix, "up_proj.weight"), {width, config_.hidden});
  layer.down = Take(absl::StrCat(prefix, "down_proj.weight"), {config_.hidden, width});
}

void WeightBinder::TakeExperts(const std::string& prefix, LayerWeights& layer) {
  const int width = config_.expert_width;
  for (int e = 0; e < config_.expert_count && status_.ok(); ++e) {
    const std::string expert = absl::StrCat(prefix, e, ".");
    layer.experts.push_back({
        .gate = Take(absl::StrCat(expert, "gate_proj.weight"), {width, config_.hidden}),
        .up = Take(absl::StrCat(expert, "up_proj.weight"), {width, config_.hidden}),
        .down = Take(absl::StrCat(expert, "down_proj.weight"), {config_.hidden, width}),
    });
  }
}

void WeightBinder::TakeFusedExperts(const std::string& prefix, LayerWeights& layer) {
  const int64_t width = config_.expert_width;
  const TensorView gate_up =
      Take(absl::StrCat(prefix, "gate_up_proj"), {config_.expert_count, 2 * width, config_.hidden});
  const TensorView down =
      Take(absl::StrCat(prefix, "down_proj"), {config_.expert_count, config_.hidden, width});
  if (!status_.ok()) return;
  for (int e = 0; e < config_.expert_count; ++e) {
    const TensorView both = gate_up.Slice(e);
    layer.experts.push_back({
        .gate = both.Rows(0, width),
        .up = both.Rows(width, width),
        .down = down.Slice(e),
    });
  }
}

TensorView WeightBinder::Take(const std::string& name, const std::vector<int64_t>& shape) {
  if (!status_.ok()) return {};
  const auto found = sources_.find(name);
  if (found == sources_.end()) {
    Refuse(absl::StrCat(source_, ": tensor ", Quoted(name), " is missing: want shape ",
                        ShapeText(shape)));
    return {};
  }
  found->second.used = true;
  absl::StatusOr<TensorView> tensor = found->second.file->Tensor(name);
  if (!tensor.ok()) {
    status_ = tensor.status();
    return {};
  }
  if (tensor->shape != shape) {
    Refuse(absl::StrCat(found->second.file->path(), ": tensor ", Quoted(name), ": want shape ",
                        ShapeText(shape), ", found ", ShapeText(tensor->shape)));
    return {};
  }
  taken_bytes_ += static_cast<uint64_t>(tensor->ByteCount());
  return *std::move(tensor);
}

absl::Status WeightBinder::CheckLeftovers() const {
  // In the order of the files, so that the same fault always gives the same message.
  for (const std::unique_ptr<SafetensorsFile>& file : files_) {
    for (const SafetensorsEntry& entry : file->entries()) {
      if (sources_.at(entry.name).used) continue;
      BATON_RETURN_IF_ERROR(CheckLeftover(entry.name, *file));
    }
  }
  return absl::OkStatus();
}

absl::Status WeightBinder::CheckLeftover(const std::string& name,
                                         const SafetensorsFile& file) const {
  if (config_.tied_head && name == kHeadTensor) return absl::OkStatus();
  if (absl::EndsWith(name, ".rotary_emb.inv_freq")) return absl::OkStatus();
  if (!absl::EndsWith(name, ".bias")) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": tensor ", Quoted(name),
                                                   ": a model of this config has no such tensor"));
  }
  BATON_ASSIGN_OR_RETURN(const TensorView bias, file.Tensor(name));
  if (IsZero(bias)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": tensor ", Quoted(name),
                   ": want no bias or zeros, found other values: this family has no biases"));
}

void WeightBinder::Refuse(std::string message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(std::move(message));
}

}  // namespace baton
