// RingSchedule: the chunks that a GPU worker's loader streams through its shared-memory ring for
// one step, in the order of their tasks. Worked out from the task lists alone; a plain value.
// Chunks come in three queues: weights at addresses known beforehand, weights of experts, known
// once the layer's routing is, and K/V pages. The multiplying warps take the first two in task
// order, the attention warps take the pages beside them.
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

struct RingShape {
  int slot_count = 6;
  int slot_bytes = 24576;
  // Free slots that a chunk out of order leaves for the other queues.
  int reserve = 3;
  // Pages give way to experts' gate and up when they hold so many slots.
  int most_kv = 3;

  // As the decode kernel has it (ReservedSlots and RunIssuer).
  static constexpr RingShape Of(int slot_count, int slot_bytes) {
    return {.slot_count = slot_count,
            .slot_bytes = slot_bytes,
            .reserve = slot_count > 3 ? 3 : slot_count - 1,
            .most_kv = slot_count > 4 ? slot_count - 3 : 1};
  }
};

enum class ChunkQueue : uint8_t { kStatic, kRouted, kKv };
inline constexpr int kChunkQueueCount = 3;

struct RingChunk {
  int task = 0;  // Index in the worker's list.
  ChunkQueue queue = ChunkQueue::kStatic;
  uint32_t bytes = 0;
  bool starts_row = false;  // The first of the pages of a row's (head, split).
};

class RingSchedule {
 public:
  // Of worker `worker` of `graph`, which is that of `config`.
  static RingSchedule Of(const ModelConfig& config, const TaskGraph& graph, int worker,
                         const StepLoad& load, int slot_bytes);

  // A schedule made elsewhere: tests change them to see the checker refuse.
  RingSchedule(std::vector<Task> tasks, std::vector<RingChunk> chunks);

  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<RingChunk>& chunks() const { return chunks_; }
  uint64_t bytes() const;

 private:
  std::vector<Task> tasks_;
  std::vector<RingChunk> chunks_;
};

}  // namespace baton
