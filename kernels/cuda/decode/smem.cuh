// Shared memory of one worker and the roles' view of it.
//
// The ring is one pool of equal slots drained through two chunk queues: queue 0 (static: weights
// and KV whose addresses are known) and queue 1 (routed: expert weights, known once routing is). A
// planner warp a queue works out the chunks' addresses ahead; one issuing thread starts the copies.
// A chunk j of a queue uses entry j % 16 of that queue's barriers and names its slot there, so that
// static chunks can run ahead while routed ones wait for the router.
#pragma once

#include "kernels/cuda/decode/decode_params.h"
#include "kernels/cuda/decode/ptx_sm90.cuh"
#include "kernels/task_graph/graph_shape.h"

namespace baton::cuda {

inline constexpr int kQueueEntries = 16;
inline constexpr int kStaticQueue = 0;
inline constexpr int kRoutedQueue = 1;
inline constexpr int kMaxChunkSteps = 64;  // K-steps of a chunk: at most 8 a warp.
inline constexpr int kReserve =
    3;  // Free slots that a chunk out of order leaves for the other queue.

// A planned chunk: what the issuing thread needs. 16 bytes.
struct alignas(16) PlannedChunk {
  const char* source;
  uint32_t bytes;
  uint32_t task;  // Index in the worker's list: the order in which consumers want chunks.
};

// What the warps of a worker share besides ring and buffers: plans, barriers, rows, routing.
struct ControlSmem {
  LayerDevice layer[2];  // Of even and odd layers: the consumers' copy of the current one.
  PlannedChunk plan[2][kQueueEntries];
  uint32_t planned[2];    // Chunks planned so far; written by the planner.
  uint32_t issued[2];     // Chunks issued so far; written by the issuing thread.
  uint32_t next_task[2];  // Task of the planner's next chunk, planned or not; ~0 at the end.
  uint64_t full[2][kQueueEntries];
  uint64_t empty[2][kQueueEntries];
  uint64_t routing;                  // Completes once a layer, when `active` and `score` are its.
  uint64_t write_page[2][kMaxRows];  // Byte offset in the arena of the page that takes the row's
                                     // new K/V.
  uint64_t seed[kMaxRows];
  float norm_partial[kConsumerWarps][kMaxRows];
  float norm_partial2[kConsumerWarps][kMaxRows];
  float soft_max[kConsumerWarps]
                [kMaxGroup];  // Attention: maximum, later sum, of each warp and head.
  float temperature[kMaxRows];
  int position[kMaxRows];
  int token[kMaxRows];
  int ring_size[kMaxRows];
  uint32_t active_rows;  // Bit mask.
  uint32_t aborted;
  int active_count;     // Active experts of the current layer.
  uint32_t expert_sum;  // Of active_count over the step's layers.
  uint8_t slot[2][kQueueEntries];
};

struct Smem {
  char* base;
  const DecodeParams& p;
  __device__ ControlSmem& misc() const {
    return *reinterpret_cast<ControlSmem*>(base + p.smem.misc);
  }
  __device__ char* xs() const { return base + p.smem.xs; }
  __device__ uint16_t* norm() const { return reinterpret_cast<uint16_t*>(base + p.smem.norm); }
  __device__ float* reduce() const { return reinterpret_cast<float*>(base + p.smem.reduce); }
  __device__ uint16_t* score() const { return reinterpret_cast<uint16_t*>(base + p.smem.score); }
  __device__ uint32_t* row_mask() const {
    return reinterpret_cast<uint32_t*>(base + p.smem.active);
  }
  __device__ uint16_t* active_id() const {
    return reinterpret_cast<uint16_t*>(base + p.smem.active + 4 * p.expert_limit);
  }
  __device__ uint32_t* rope() const { return reinterpret_cast<uint32_t*>(base + p.smem.rope); }
  __device__ uint16_t* keep() const { return reinterpret_cast<uint16_t*>(base + p.smem.keep); }
  // Reads of the task list outlive the L1 cache, which every fence empties: it lies in shared
  // memory if there is room.
  __device__ const Task* tasks(int worker) const {
    return p.smem.tasks == kTasksInGlobal ? p.tasks + uint64_t(worker) * p.task_stride
                                          : reinterpret_cast<const Task*>(base + p.smem.tasks);
  }
  __device__ char* slot(int i) const {
    return base + p.smem.ring + uint32_t(i) * p.smem.slot_bytes;
  }
};

__device__ __forceinline__ float Bf16BitsToFloat(uint32_t bits) {
  return __uint_as_float(bits << 16);
}
__device__ __forceinline__ uint32_t FloatToBf16Bits(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ float RoundBf16(float value) {
  return Bf16BitsToFloat(FloatToBf16Bits(value));
}
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ __forceinline__ float LowFloat(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float HighFloat(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

// The cached keys of a row that a layer sees, [low, position), cut into splits of whole pages. The
// cut depends on the row alone.
struct SplitPlan {
  int first_page, page_count, pages_per_split, split_count, low;
};
__device__ __forceinline__ SplitPlan PlanSplits(const DecodeParams& p, int position, bool sliding) {
  SplitPlan plan;
  plan.low = sliding ? max(0, position - p.window_keys + 1) : 0;
  plan.first_page = plan.low >> 6;
  plan.page_count = position > plan.low ? ((position - 1) >> 6) - plan.first_page + 1 : 0;
  plan.pages_per_split = (plan.page_count + p.max_splits - 1) / p.max_splits;
  plan.split_count =
      plan.page_count > 0 ? (plan.page_count + plan.pages_per_split - 1) / plan.pages_per_split : 0;
  return plan;
}
inline constexpr int kPageGroup =
    4;  // Attention takes pages in groups: their keys, then their values.

// Which (kv head, split) of `row` this worker attends to: index = split * kv_heads + head, rotated
// by row so that short rows load different workers. -1: none.
__device__ __forceinline__ int AttentionIndex(const DecodeParams& p, int worker, int row,
                                              int split_count) {
  int index = worker - (row * 37) % p.worker_count;
  if (index < 0) index += p.worker_count;
  return index < split_count * p.kv_heads ? index : -1;
}
// The slices of a GateUp or Down task: indices into the layer's active list; the always-active
// network comes last, as index `count`.
struct SliceRange {
  int begin, end;
};
__device__ __forceinline__ SliceRange TaskSlices(const Task& task, const LayerDevice& layer,
                                                 int count) {
  const int always = layer.always_width > 0 ? 1 : 0;
  if (task.op == OpKind::kDown) return {0, count + always};
  if (task.part == kAlwaysActive) return {count, count + always};
  return {ExpertPartBegin(count, task.part), ExpertPartBegin(count, task.part + 1)};
}

}  // namespace baton::cuda
