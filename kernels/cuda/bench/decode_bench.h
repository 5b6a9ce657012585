// Measures decode steps of one geometry at one operating point. Weights are made on the device, or
// come from a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/decode/cuda_decode_runner.h"
#include "kernels/cuda/decode/weight_packer.h"
#include "kernels/decode_benchmark.h"
#include "kernels/kv/kv_layout.h"
#include "kernels/models/model_config.h"

namespace baton::cuda {

using ::baton::DecodeMeasurement;
using ::baton::DecodePoint;

// Owns a model on the device and an arena filled with noise; measures points one after the other.
class DecodeBench {
 public:
  // `checkpoint_weights` null: synthetic weights. worker_count 0: one a multiprocessor.
  static absl::StatusOr<std::unique_ptr<DecodeBench>> Create(const ModelConfig& config,
                                                             const WeightSet* checkpoint_weights,
                                                             int worker_count,
                                                             uint64_t arena_bytes);
  ~DecodeBench();

  absl::StatusOr<DecodeMeasurement> Measure(const DecodePoint& point, const DecodeTuning& tuning,
                                            std::string* trace_json);
  uint64_t weight_bytes() const { return weights_->bytes(); }

 private:
  explicit DecodeBench(const ModelConfig& config) : config_(config) {}
  absl::StatusOr<std::unique_ptr<CudaDecodeRunner>> MakeRunner(const DecodePoint& point,
                                                               const DecodeTuning& tuning) const;

  const ModelConfig config_;
  std::unique_ptr<PackedWeights> weights_;
  std::unique_ptr<TaskGraph> graph_;
  void* arena_ = nullptr;
  uint64_t arena_bytes_ = 0;
};

}  // namespace baton::cuda
