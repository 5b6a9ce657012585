// Measuring prefill at an operating point: what `baton bench prefill` asks of a device. One owner
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/models/checkpoint.h"

namespace baton {

struct PrefillPoint {
  int length = 8192;  // Of each prompt.
  int count = 1;      // Prompts, packed into chunks in order.
};

struct PrefillStageTime {
  std::string name;
  double seconds = 0;  // On the device, of one run.
};

struct PrefillMeasurement {
  double seconds_median = 0;  // Of the whole point, as the host sees it.
  double seconds_best = 0;
  double seconds_estimated = 0;  // What the cost model says of an H200.
  uint64_t tokens = 0;
  double matrix_operations = 0;     // Of the products; a multiply-add counts as two.
  double attention_operations = 0;  // Over visible keys only.
  std::vector<PrefillStageTime> stages;

  double operations() const { return matrix_operations + attention_operations; }
  double tokens_per_second() const { return static_cast<double>(tokens) / seconds_median; }
};

struct PrefillBenchmarkOptions {
  const Checkpoint* checkpoint = nullptr;  // Null: random weights at North Mini Code's geometry,
  int layers = 49;                         // this many layers of it.
  std::vector<PrefillPoint> points;        // That will be measured: sizes the KV arena.
  int chunk_tokens = 8192;
  int repeats = 3;      // Of each point, after one that warms up.
  bool pinned = false;  // Products whose results do not depend on how a prompt is cut.
};

class PrefillBenchmark {
 public:
  virtual ~PrefillBenchmark() = default;
  virtual std::string device() const = 0;  // Its name.
  virtual uint64_t weight_bytes() const = 0;
  virtual absl::StatusOr<PrefillMeasurement> Measure(const PrefillPoint& point) = 0;
};

}  // namespace baton
