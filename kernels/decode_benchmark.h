// Measuring decode steps at an operating point: what `baton bench decode` asks of a device. One
// owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/generation.h"
#include "kernels/models/checkpoint.h"

namespace baton {

struct DecodePoint {
  int batch = 1;
  int context = 8192;         // Tokens in the cache at the first step, which is a warm-up.
  std::vector<int> contexts;  // Per row instead, if not empty (ragged); then `batch` of them.
  int steps = 64;
  int warm_up_steps = 8;
  int forced_experts =
      128;  // Routing draws uniformly from this many experts a layer; 0 = the router decides.
};

struct DecodeMeasurement {
  // Between results, as the host sees them. It looks every few microseconds: rates are of the mean.
  double step_ms_mean = 0, step_ms_median = 0, step_ms_p99 = 0;
  double device_ms_median = 0;   // Kernel alone.
  double tokens_per_second = 0;  // Of the measured steps' whole time.
  double distinct_experts = 0;
  double weight_bytes = 0, kv_bytes = 0;  // That a step must read.
  // Shares of the MMA warps' cycles. join_and_norm: until a layer's input was there and normalised.
  double wait_memory = 0, wait_routing = 0, join_and_norm = 0, wait_other = 0;
  double first_after_idle_ms = 0;     // A step after one idle second.
  std::vector<SampledToken> sampled;  // [warm-up and measured steps][rows]
  uint64_t digest =
      0;  // Of all tokens and log-probability bits: equal for equal points, whatever the tuning.
  double bytes() const { return weight_bytes + kv_bytes; }
};

struct DecodeBenchmarkOptions {
  bool baseline = false;  // The step as one kernel per operation instead of the megakernel.
  bool trace = false;     // Measure will be asked for a trace.
  const Checkpoint* checkpoint = nullptr;  // Null: random weights at North Mini Code's geometry,
  int layers = 49;                         // this many layers of it.
  std::vector<DecodePoint> points;         // That will be measured: sizes the KV arena.
};

class DecodeBenchmark {
 public:
  virtual ~DecodeBenchmark() = default;
  virtual std::string device() const = 0;  // Its name.
  virtual uint64_t weight_bytes() const = 0;
  // Bytes a second of a plain stream over device memory, measured when the benchmark was made.
  virtual double stream_bytes_per_second() const = 0;
  // `trace_json`, if not null, gets the last step's trace; the baseline refuses that.
  virtual absl::StatusOr<DecodeMeasurement> Measure(const DecodePoint& point,
                                                    std::string* trace_json) = 0;
};

}  // namespace baton
