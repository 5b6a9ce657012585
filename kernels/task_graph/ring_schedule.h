// RingSchedule: the chunks that a GPU worker's loader streams through its shared-memory ring for
// one step, in task order. Worked out from the task lists alone; a plain value. Chunks come in
// queues: those at addresses known beforehand (weights, K/V pages), those of experts, known once
// the layer's routing is, and, where attention has consumers of its own, K/V pages apart.
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
  int slot_count = 8;
  int slot_bytes = 24576;
  // Free slots that a chunk out of order leaves for the other queues.
  int reserve = 3;
  // K/V pages are a queue of their own, taken by consumers of their own, who also work out each
  // layer's routing before they attend; while a GateUp chunk is known, pages hold at most kv_limit
  // slots.
  bool kv_apart = false;
  int kv_limit = 5;
};

enum class ChunkQueue : uint8_t { kStatic, kRouted, kKv };
inline constexpr int kChunkQueues = 3;

struct RingChunk {
  int task = 0;  // Index in the worker's list.
  ChunkQueue queue = ChunkQueue::kStatic;
  uint32_t bytes = 0;
};

class RingSchedule {
 public:
  // Of worker `worker` of `graph`, which is that of `config`.
  static RingSchedule Of(const ModelConfig& config, const TaskGraph& graph, int worker,
                         const StepLoad& load, const RingShape& ring);

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
