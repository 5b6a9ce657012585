// RingSchedule: the chunks that a GPU worker's loader streams through shared memory in one step.
// There are two rings of slots, each filled in the order in which one role takes its chunks:
// weights for the multiplying warps, K/V tiles of pages for the attention warps. Worked out from
// the task lists alone; a plain value.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/models/model_config.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// What a step's chunks depend on besides model and workers.
struct StepLoad {
  std::vector<int> contexts = {8192};  // Of each row: cached tokens.
  int active_experts = 8;              // Of every sparse layer.
};

// A worker's rings. Chunk n of a ring lies in slot n % slots.
struct RingShape {
  int weight_slots = 4;
  int weight_slot_bytes = 24576;
  // Of the weights: chunk n goes out once the one so far back has landed.
  int in_flight_chunks = 2;
  int kv_slots = 4;
  int kv_slot_bytes = 16384;  // Keys or values of a page, of one head.

  // As the decode kernel has them at North Mini Code's geometry: more rows leave less of shared
  // memory, and one row that is long needs more slots for its pages.
  static constexpr int kLongRow = 8 * 33 * 64;  // Keys: eight pages of each of 33 splits.
  static constexpr RingShape For(int rows, int longest) {
    if (rows == 1 && longest < kLongRow) return {.weight_slots = 5, .kv_slots = 3};
    if (rows <= 8) return {};
    if (rows <= 16) return {.kv_slots = 2};
    return {.weight_slots = rows <= 24 ? 6 : 4,
            .weight_slot_bytes = 12288,
            .in_flight_chunks = 4,
            .kv_slots = 2};
  }
};

struct RingChunk {
  int task = 0;  // Index in the worker's list.
  uint32_t bytes = 0;
  bool starts_row = false;  // The first of the pages of a row's (head, split).
};

struct RingSchedule {
  // Of worker `worker` of `graph`, which is that of `config`.
  static RingSchedule Of(const ModelConfig& config, const TaskGraph& graph, int worker,
                         const StepLoad& load, const RingShape& ring);

  uint64_t bytes() const;

  std::vector<Task> tasks;
  std::vector<RingChunk> weights, kv;
};

}  // namespace baton
