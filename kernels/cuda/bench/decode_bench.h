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
#include "kernels/models/model_config.h"

namespace baton::cuda {

struct DecodePoint {
  int batch = 1;
  int context = 8192;         // Tokens in the cache at the first measured step.
  std::vector<int> contexts;  // Per row instead, if not empty (ragged).
  int steps = 64;
  int warm_up_steps = 8;
  int forced_experts =
      128;  // Routing draws uniformly from this many experts a layer; 0 = the router decides.
};

struct DecodeMeasurement {
  double step_ms_median = 0, step_ms_p99 = 0;  // Between results, as the host sees them.
  double device_ms_median = 0;                 // Kernel alone.
  double tokens_per_second = 0;
  double distinct_experts = 0;
  double weight_bytes = 0, kv_bytes = 0;  // That a step must read.
  double wait_memory = 0, wait_routing = 0, wait_join = 0,
         wait_other = 0;           // Shares of the workers' cycles.
  double first_after_idle_ms = 0;  // A step after one idle second.
  uint64_t digest =
      0;  // Of all tokens and log-probability bits: equal for equal points, whatever the tuning.
  double bytes() const { return weight_bytes + kv_bytes; }
};

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
  // Bytes of a step that the point must read, given distinct experts a layer.
  double WeightBytes(double distinct_experts) const;
  double KvBytes(const std::vector<int>& contexts) const;

  const ModelConfig config_;
  std::unique_ptr<PackedWeights> weights_;
  std::unique_ptr<TaskGraph> graph_;
  void* arena_ = nullptr;
  uint64_t arena_bytes_ = 0;
};

}  // namespace baton::cuda
