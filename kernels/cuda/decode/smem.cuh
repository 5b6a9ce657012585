// Shared memory of one worker and the roles' view of it.
//
// The ring is one pool of equal slots drained through three chunk queues: static (weights whose
// addresses are known), routed (expert weights, known once routing is) and KV (pages). A planner
// warp a queue works out the chunks' addresses ahead; one issuing warp starts the copies. A chunk
// j of a queue uses entry j % 16 of that queue's barriers and names its slot there, so that each
// queue can run ahead while another waits for the router or for queries.
#pragma once

#include "kernels/cuda/decode/decode_params.h"
#include "kernels/cuda/decode/ptx_sm90.cuh"
#include "kernels/task_graph/graph_shape.h"

namespace baton::cuda {

inline constexpr int kQueueEntries = 16;
inline constexpr int kStaticQueue = 0;
inline constexpr int kRoutedQueue = 1;
inline constexpr int kKvQueue = 2;
inline constexpr int kQueues = 3;
// Every chunk is released by this many arrivals: one an MMA warp, two an attention warp.
inline constexpr int kReleases = kMmaWarps;
inline constexpr int kMaxChunkSteps = 64;  // K-steps of a chunk: at most 8 a warp.
// Free slots that a chunk out of order leaves for the other queues.
__host__ __device__ constexpr int ReservedSlots(int slot_count) {
  return slot_count > 3 ? 3 : slot_count - 1;
}
inline constexpr int kLeastSlots = 3;

// A planned chunk: what the issuing warp needs. 16 bytes.
inline constexpr uint32_t kExpertChunk = 1;  // Flag of GateUp's chunks.
struct alignas(16) PlannedChunk {
  const char* source;
  uint32_t bytes;  // A multiple of 16, plus flags.
  uint32_t task;   // Index in the worker's list: the order in which consumers want chunks.
};

// The three groups of warps that walk the task list.
enum Role { kMmaRole, kAttentionRole, kEpilogueRole, kRoles };

// Where a role is, for the error slot.
struct WaitContext {
  uint32_t worker, task, op, layer;
};

// Tiles that the MMA warps may be ahead of the epilogue warps.
template <int NT>
inline constexpr int kStages = NT == 1   ? 4
                               : NT == 2 ? 2
                                         : 1;
inline constexpr int kMaxStages = 4;

// What the warps of a worker share besides ring and buffers: plans, barriers, rows, routing.
struct ControlSmem {
  LayerDevice layer[kRoles][2];  // Of even and odd layers: each role's copy of its current one.
  WaitContext at[kRoles];
  uint32_t wait_memory, wait_routing, wait_join, wait_other;  // Cycles of MMA thread 0 this step.
  PlannedChunk plan[kQueues][kQueueEntries];
  uint32_t planned[kQueues];    // Chunks planned so far; written by the planner.
  uint32_t issued[kQueues];     // Chunks issued so far; written by the issuing warp.
  uint32_t next_task[kQueues];  // Task of the planner's next chunk, planned or not; ~0 at the end.
  uint64_t full[kQueues][kQueueEntries];
  uint64_t empty[kQueues][kQueueEntries];
  uint64_t partial_full[kMaxStages];   // A stage of `reduce` holds a tile of all MMA warps.
  uint64_t partial_empty[kMaxStages];  // The epilogue warps have read it.
  uint64_t routing;                    // Completes once a layer, when `active` and `score` are its.
  uint64_t write_page[2][kMaxRows];    // Byte offset in the arena of the page that takes the row's
                                       // new K/V.
  uint64_t seed[kMaxRows];
  float norm_partial[kMmaWarps][kMaxRows];
  float norm_partial2[kMmaWarps][kMaxRows];
  // Attention: maximum, later sum, of each warp and head.
  float soft_max[kAttentionWarps][kMaxGroup];
  float temperature[kMaxRows];
  int position[kMaxRows];
  int token[kMaxRows];
  int ring_size[kMaxRows];
  uint32_t active_rows;  // Bit mask.
  uint32_t aborted;
  int active_count;                    // Active experts of the current layer.
  uint32_t routed[kRoles][kMmaWarps];  // Each warp's last layer << 16 | its active experts.
  uint32_t expert_sum;                 // Of active_count over the step's layers.
  uint8_t slot[kQueues][kQueueEntries];
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
  __device__ char* attention() const { return base + p.smem.attention; }
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
// Attention takes pages in groups: their keys, then their values.
inline constexpr int kPageGroup = 4;
inline constexpr int kProbabilityStride =
    kPageGroup * 64 + 8;  // bf16; rows 16 bytes apart in banks.
inline constexpr int kAttentionScratch = kMaxGroup * kProbabilityStride * 2;

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
