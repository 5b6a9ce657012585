// Packed weights of one model on one device, in the decode kernel's order. Owns the device memory.
// Made once at load: the mapped checkpoint streams through pinned buffers and is packed on the GPU,
// so that host memory stays small and device memory holds little more than the packed weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/decode/decode_params.h"
#include "kernels/models/model_config.h"
#include "kernels/models/weight_set.h"

namespace baton::cuda {

class PackedWeights {
 public:
  using Progress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

  // Packs `weights` for `worker_count` workers. ResourceExhausted says how much device memory was
  // wanted.
  static absl::StatusOr<std::unique_ptr<PackedWeights>> Load(const ModelConfig& config,
                                                             const WeightSet& weights,
                                                             int worker_count,
                                                             const Progress& progress);
  // Random weights of the same sizes, made on the device: for benchmarks without a checkpoint.
  static absl::StatusOr<std::unique_ptr<PackedWeights>> Synthetic(const ModelConfig& config,
                                                                  uint64_t seed);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // Weights and widths of each layer; the counters and KV places are the runner's to fill in.
  const std::vector<LayerDevice>& layers() const { return layers_; }
  const uint16_t* final_norm() const { return final_norm_; }
  const char* head() const { return head_; }
  const char* embedding() const { return embedding_; }
  uint64_t bytes() const { return bytes_; }

 private:
  PackedWeights() = default;
  absl::Status Allocate(const ModelConfig& config, bool tied);

  char* memory_ = nullptr;
  uint64_t bytes_ = 0;
  std::vector<LayerDevice> layers_;
  uint16_t* final_norm_ = nullptr;
  char* head_ = nullptr;
  char* embedding_ = nullptr;
};

}  // namespace baton::cuda
