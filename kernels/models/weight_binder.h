// WeightBinder: gives the tensors of a checkpoint's files their roles in the model, and accounts
// for every one of them. Used by one thread while a checkpoint opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kernels/models/model_config.h"
#include "kernels/models/safetensors_file.h"
#include "kernels/models/weight_set.h"

namespace baton {

inline constexpr char kEmbeddingTensor[] = "model.embed_tokens.weight";
inline constexpr char kHeadTensor[] = "lm_head.weight";

class WeightBinder {
 public:
  // `files` outlive the result; `source` (the directory) begins messages about missing tensors.
  WeightBinder(const ModelConfig& config,
               const std::vector<std::unique_ptr<SafetensorsFile>>& files, std::string source);

  // Binds everything. Both expert layouts are taken, layer by layer: mlp.experts.N.gate_proj.weight
  // and so on, or mlp.experts.gate_up_proj [experts, 2 * width, hidden] (gate rows first) with
  // mlp.experts.down_proj [experts, hidden, width]. Ignored: biases that are all zero,
  // lm_head.weight beside a tied head (Checkpoint has seen that it is the embedding), rotary
  // inv_freq. InvalidArgument names the file and tensor that is unknown, missing, there twice, or
  // of the wrong shape or dtype.
  absl::StatusOr<WeightSet> Bind();

 private:
  struct Source {
    const SafetensorsFile* file = nullptr;
    bool used = false;
  };

  bool Has(const std::string& name) const { return sources_.contains(name); }
  // The tensor of that name and shape; the first error is kept in status_ and gives an empty view.
  TensorView Take(const std::string& name, const std::vector<int64_t>& shape);
  void TakeGated(const std::string& prefix, int width, LayerWeights& layer);
  void TakeExperts(const std::string& prefix, LayerWeights& layer);
  void TakeFusedExperts(const std::string& prefix, LayerWeights& layer);
  LayerWeights TakeLayer(int layer_id);
  absl::Status IndexFiles();
  absl::Status CheckLeftover(const std::string& name, const SafetensorsFile& file) const;
  absl::Status CheckLeftovers() const;
  void Refuse(std::string message);

  const ModelConfig& config_;
  const std::vector<std::unique_ptr<SafetensorsFile>>& files_;
  const std::string source_;
  absl::flat_hash_map<std::string, Source> sources_;
  uint64_t taken_bytes_ = 0;
  absl::Status status_;
};

}  // namespace baton
