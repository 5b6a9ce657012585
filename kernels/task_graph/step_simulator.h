// An event simulator of a decode step on a GPU: every worker's loader and its warps by role over
// their rings, the counters and packets between workers, and constants that were measured on the
// device or fitted to whole steps. It predicts the time of a schedule where there is no GPU, and
// says what the time goes into.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/models/model_config.h"
#include "kernels/task_graph/ring_schedule.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// Of an H200 at 1980 MHz (tests/bench/RESULTS.md says which are fitted).
struct DeviceConstants {
  double stream_bytes_per_second = 4.62e12;  // All workers together, nothing computed.
  double load_latency_us = 0.8;              // From issue to landing of a chunk, the stream idle.
  double publish_us = 1.3;                   // A gpu-scope fence and an add, while streaming.
  double hop_us = 1.3;        // From the add, or the store of a packet, to a reader that sees it.
  double norm_us = 1.91;      // A row tile of x to normalised fragments,
  double sole_norm_us = 0.7;  // and a row that is the only one.
  double task_us = 0.14;      // Every task of a role: its barriers, its first operands.
  double finish_us = 0.29;    // From a task's last product to its stores.
  // A chunk with the multiplying warps, and 1000 bytes of it: multiply_us, and row_tile_us for
  // every eight rows that it multiplies.
  double chunk_us = 0.317;
  double gathered_chunk_us = 0.28;  // Of experts with more than 16 rows: loads before products.
  double multiply_us = 0.0067;
  double row_tile_us = 0.0093;
  double operands_us = 0.48;           // OutputProj and Down: until the first operands are there.
  double routing_us = 1.88;            // Router logits to the layer's list of experts.
  double attend_row_us = 3.75;         // A row's (head, split): its query, barriers, sums.
  double attend_bytes_per_us = 32800;  // A worker's attention warps.
  double merge_us = 0.14;              // A (row, query head).
  double launch_us = 4.0;              // Between two steps.
};

struct StepPrediction {
  double step_us = 0;
  uint64_t bytes = 0;    // That the step streams.
  double stream_us = 0;  // At the stream's bandwidth.
  // Shares of all multiplying warps' time.
  double busy = 0;          // Taking chunks, norms, tasks.
  double wait_memory = 0;   // For a chunk.
  double wait_routing = 0;  // For the layer's list of experts.
  double wait_join = 0;     // For x of a layer.
  double wait_other = 0;    // For another counter.
};

// InvalidArgument: the schedule stops for ever (what CheckRings would refuse), or
// a batch of no rows or more than 32.
absl::StatusOr<StepPrediction> PredictStep(const ModelConfig& config, const TaskGraph& graph,
                                           const StepLoad& load, const RingShape& ring,
                                           const DeviceConstants& device = {});

}  // namespace baton
