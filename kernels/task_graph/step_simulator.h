// An event simulator of a decode step on a GPU: every worker's loader and consumers over its ring,
// the counters between workers, and constants that were measured on the device. It predicts the
// time of a schedule where there is no GPU, and says what the time goes into.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/models/model_config.h"
#include "kernels/task_graph/ring_schedule.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// Of an H200 at 1980 MHz (tests/bench/RESULTS.md). Latencies and costs are of microbenchmarks with
// 48 KiB in flight; the rates of consumers are fitted to measured steps.
struct DeviceConstants {
  double stream_bytes_per_second = 4.55e12;  // All workers together, nothing computed.
  double load_latency_us = 0.55;             // From issue to landing of a chunk, the stream idle.
  int in_flight_bytes = 73728;               // Of a worker.
  double publish_us = 1.4;                   // A gpu-scope fence and an add, while streaming.
  double hop_us = 1.2;                       // From the add to a reader that sees it and fences.
  double norm_us = 1.5;                      // x to normalised fragments in shared memory.
  double routing_us = 1.2;                   // Router logits to the layer's list of experts.
  double task_us = 0.35;                     // Every task: barriers, sums over warps, stores.
  // A worker's consumers, bytes of chunks a microsecond, with 8, 16, 24 and 32 rows.
  std::array<double, 4> consume_bytes_per_us = {28250, 22300, 15000, 12250};
  double launch_us = 4.0;  // Between two steps.
};

struct StepPrediction {
  double step_us = 0;
  uint64_t bytes = 0;    // That the step streams.
  double stream_us = 0;  // At the stream's bandwidth.
  // Shares of all consumers' time.
  double busy = 0;          // Taking chunks, norms, publishing.
  double wait_memory = 0;   // For a chunk.
  double wait_routing = 0;  // For the layer's list of experts.
  double wait_join = 0;     // For x of a layer.
  double wait_other = 0;    // For another counter.
};

// InvalidArgument: the schedule stops for ever (what CheckTaskGraph or CheckRing would refuse), a
// batch of no rows or more than 32, or a ring with K/V pages apart, which is not modelled.
absl::StatusOr<StepPrediction> PredictStep(const ModelConfig& config, const TaskGraph& graph,
                                           const StepLoad& load, const RingShape& ring,
                                           const DeviceConstants& device = {});

// Distinct experts a layer of `rows` rows that each choose `chosen` of `pool` uniformly, rounded.
int ExpectedDistinctExperts(int rows, int chosen, int pool);

}  // namespace baton
