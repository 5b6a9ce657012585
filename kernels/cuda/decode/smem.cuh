// Shared memory of one worker and the roles' view of it.
//
// Two rings hold what was streamed in: the weights, in the order in which the MMA warps take them,
// and the K/V pages, in the order in which the attention warps do. A slot's `full` barrier
// completes when its chunk has landed, its `empty` barrier when all warps that read it have.
#pragma once

#include "kernels/cuda/decode/decode_params.h"
#include "kernels/cuda/decode/ptx_sm90.cuh"
#include "kernels/cuda/decode/racecheck.cuh"
#include "kernels/task_graph/chunk_steps.h"
#include "kernels/task_graph/graph_shape.h"

namespace baton::cuda {

// Fewer slots than these could not keep memory busy.
inline constexpr int kLeastSlots = 2;

// A slot of a ring and the parity of the phase that it is in.
struct RingPlace {
  int slot = 0;
  uint32_t phase = 0;
  __device__ void Advance(int slot_count) {
    if (++slot == slot_count) {
      slot = 0;
      phase ^= 1;
    }
  }
  __device__ void Retreat(int slot_count) {
    if (--slot < 0) {
      slot = slot_count - 1;
      phase ^= 1;
    }
  }
};

// A worker's rings.
enum RingId { kWeightRing, kPageRing, kRings };
struct RingBarriers {
  uint64_t full[kMaxSlots];
  uint64_t empty[kMaxSlots];
};

// The groups of warps that walk a task list: those of the first three are of their own, the
// loader's warps walk the lists of the warps that they load for.
enum Role { kMmaRole, kAttentionRole, kEpilogueRole, kWeightRole, kKvRole, kOperandRole, kRoles };
inline constexpr int kTaskLists = 3;
inline constexpr OpKind kEndOfList = OpKind(0xff);
// The loader's warps. That of the weights, which all wait for, shares no scheduler with the first
// warps of the other roles, which have the most to do.
inline constexpr int kKvWarp = 0, kWeightWarp = 1, kWatchdogWarp = 2, kOperandWarp = 3;
// The first of a role's warps.
__host__ __device__ constexpr int FirstWarp(Role role) {
  constexpr int kFirst[] = {0,
                            kMmaWarps,
                            kMmaWarps + kAttentionWarps,
                            kMmaWarps + kAttentionWarps + kEpilogueWarps + kWeightWarp,
                            kMmaWarps + kAttentionWarps + kEpilogueWarps + kKvWarp,
                            kMmaWarps + kAttentionWarps + kEpilogueWarps + kOperandWarp};
  return kFirst[role];
}
inline constexpr int kWarps = kThreads / 32;
__host__ __device__ constexpr int ListOf(Role role) {
  return role == kWeightRole || role == kOperandRole ? kMmaRole
         : role == kKvRole                           ? kAttentionRole
                                                     : role;
}
// Whether tasks of an op stand in the list of a role.
constexpr bool InList(OpKind op, int list) {
  const bool attends = op == OpKind::kAttention || op == OpKind::kAttentionMerge;
  if (list == kAttentionRole) return attends;
  const bool multiplies = !attends && op != OpKind::kEmbed && op != OpKind::kSample;
  return list == kMmaRole ? multiplies : !attends;
}

// Where a role is, for the error slot.
struct WaitContext {
  uint32_t worker, task, op, layer;
};

// What it waits for. Kinds that wait for other workers come first.
enum WaitKind : uint32_t {
  kWaitCounter = 1,
  kWaitPacket = 2,
  kWaitRouting = 3,
  kWaitTile = 4,
  kWaitRing = 5,
  kWaitLoader = 6,
  kWaitLayer = 7,  // That the MMA warps are there.
};
inline constexpr const char* kWaitKindNames[] = {
    "?", "counter", "packets of counter", "routing", "tile", "ring", "loader", "layer"};
struct Blocked {
  uint32_t kind, counter, wanted;
};

// Teams of MMA warps, for a number of row tiles: see mma_group.cuh.
template <int NT>
inline constexpr int kTeams = NT <= 2 ? 2 : 1;
// Whether an expert's rows are listed, for Down, and gathered for GateUp: with few row tiles that
// costs more than it saves.
template <int NT>
inline constexpr bool kLists = NT > 1;
template <int NT>
inline constexpr bool kGathers = NT > 2;
// Tiles of 16 x 8 that the MMA warps may be ahead of the epilogue warps.
template <int NT>
inline constexpr int kStages = NT <= 2 ? 4 : 2;
inline constexpr int kMaxStages = 4;

// The (kv head, split) of one row that a worker attends to: pages [begin, end), keys from `low` on.
struct AttentionItem {
  uint16_t head, split, begin, end;
  int low;
};

__device__ __forceinline__ bool IsShared(const AttentionItem& item) {
  return item.end - item.begin >= kSharedPages;
}

// Where an attention warp is in the pages' ring.
struct PageCursor {
  RingPlace next;
  uint32_t taken;  // Tiles taken and skipped.
};

// Down with more than eight rows: what the loader has brought of a slice, and where. A block is
// the slice, or as much of it as kMaxSharedSteps.
inline constexpr int kOperandPlaces = 8;
struct alignas(16) OperandBlock {
  uint32_t at;     // Of the first row's k-steps, from the base of shared memory.
  uint16_t first;  // Where the slice's rows and scores begin.
  uint8_t rows;
  uint8_t ends_slice;
  uint16_t pitch;  // From one row to the next, in bytes.
  uint8_t steps, chunk_steps;
  uint16_t ends_tile;
  uint16_t usual;  // A whole slice of up to eight rows, of kUsualSteps.
};

// What the warps of a worker share besides ring and buffers: plans, barriers, rows, routing.
struct ControlSmem {
  LayerDevice layer[kRoles][2];  // Of even and odd layers: each role's copy of its current one.
  Task task[kWarps], next_task[kWarps];  // Each warp's current task and the one after.
  WaitContext at[kRoles];
  Blocked blocked[kRoles];
  uint32_t finished[kRoles];  // Not 0: the role is at its list's end.
  long long start;            // Clock of MMA thread 0.
  uint32_t wait_memory, wait_routing, wait_join, wait_other;  // Cycles of MMA thread 0 this step.
  RingBarriers rings[kRings];
  uint32_t issued[kRings];  // Chunks whose copies were started.
  PageCursor page_cursors[kAttentionWarps];
  OperandBlock operands[kOperandPlaces];
  RingPlace operand_cursors[kMmaWarps];  // Of the next block that a warp takes.
  uint64_t operands_full[kOperandPlaces], operands_empty[kOperandPlaces];
  uint64_t xs_free;                    // All MMA warps are at Down.
  uint64_t partial_full[kMaxStages];   // A stage of `reduce` holds a tile of all MMA warps.
  uint64_t partial_empty[kMaxStages];  // The epilogue warps have read it.
  uint64_t merged;                     // With one row: completes once a layer, when this worker's
                                       // part of the attention's result is on its way.
  uint64_t routing;                    // Completes once a layer, when the active list is its.
  uint64_t write_page[2][kMaxRows];    // Byte offset in the arena of the page that takes the row's
                                       // new K/V.
  uint64_t seed[kMaxRows];
  float temperature[kMaxRows];
  int position[kMaxRows];
  int token[kMaxRows];
  int ring_size[kMaxRows];
  uint32_t active_rows;  // Bit mask.
  // Of full and of sliding layers: the worker's items, the rows that have one, and all rows'
  // splits.
  AttentionItem items[2][kMaxRows];
  uint32_t item_rows[2];
  uint8_t splits[2][kMaxRows];
  uint32_t aborted;
  int active_count;                    // Active experts of the current layer.
  uint32_t routed[kRoles][kMmaWarps];  // Each warp's last layer << 16 | its active experts.
  uint32_t expert_sum;                 // Of active_count over the step's layers.
};

inline constexpr uint16_t kOneBf16 = 0x3f80;

// Of a layer's active list: an expert and the rows that chose it, or what is always active.
struct alignas(8) Slice {
  uint32_t rows;    // Bit mask.
  uint16_t expert;  // 0 if always active.
  uint16_t first;   // Where its rows and their scores begin, if they are listed.
};

struct Smem {
  char* base;
  const DecodeParams& p;
  __device__ ControlSmem& misc() const {
    return *reinterpret_cast<ControlSmem*>(base + p.smem.misc);
  }
  __device__ char* xs() const { return base + p.smem.xs; }
  __device__ uint16_t* norm() const { return reinterpret_cast<uint16_t*>(base + p.smem.norm); }
  // [8 warps][8 NT], of squares (0) or of the mean (1).
  __device__ float* norm_partial(int of) const {
    return reinterpret_cast<float*>(base + p.smem.norm_partial) + of * kMmaWarps * 8 * p.row_tiles;
  }
  __device__ float* reduce() const { return reinterpret_cast<float*>(base + p.smem.reduce); }
  // The layer's active list by ascending expert, then what is always active.
  __device__ Slice* slices() const { return reinterpret_cast<Slice*>(base + p.smem.slices); }
  // bf16 [slice][8 NT]; where rows are listed, theirs alone, those of what is always active
  // first. What is always active has scores of one.
  __device__ uint16_t* slice_scores() const {
    return reinterpret_cast<uint16_t*>(base + p.smem.slice_scores);
  }
  // Listed rows, in ascending order of each slice.
  __device__ uint8_t* slice_rows() const {
    return reinterpret_cast<uint8_t*>(base + p.smem.slice_rows);
  }
  // With one row tile: bf16 of rows `row` (even; the lower half) and `row` + 1 of slice `of`.
  __device__ uint32_t Scores(int of, int row) const {
    return *reinterpret_cast<const uint32_t*>(slice_scores() + of * 8 + row);
  }
  // The row of the batch in `column` of the slice's gathered rows; past their end the first.
  __device__ int GatheredRow(const Slice& slice, int column) const {
    return slice_rows()[slice.first + (column < __popc(slice.rows) ? column : 0)];
  }
  // What the list is made from, by expert: row masks, empty in between, and where the scores begin.
  __device__ uint32_t* expert_rows() const {
    return reinterpret_cast<uint32_t*>(base + p.smem.experts);
  }
  __device__ uint16_t* expert_scores() const {
    return reinterpret_cast<uint16_t*>(base + p.smem.experts + 4 * p.expert_limit);
  }
  // bf16x2 cosine and sine, [owned pairs][8 NT]; in global memory, but the worker's own.
  __device__ uint32_t* rope(int worker) const {
    return p.rope + uint64_t(worker) * p.rope_pairs * kMaxRows;
  }
  __device__ uint16_t* keep() const { return reinterpret_cast<uint16_t*>(base + p.smem.keep); }
  __device__ char* slot(int i) const {
    return base + p.smem.ring + uint32_t(i) * p.smem.slot_bytes;
  }
  __device__ char* page_slot(int i) const {
    return base + p.smem.page_ring + uint32_t(i) * uint32_t(p.kv_tile_bytes);
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

// Whether the attention's result travels as packets, from merge to output projection: where there
// is one active row, whose k-steps all warps fetch in one round trip.
inline constexpr int kMostOneRowSteps = 32;  // Of a warp.
template <int NT>
__device__ __forceinline__ bool SoleRowPackets(const DecodeParams& p, const ControlSmem& misc) {
  return NT == 1 && __popc(misc.active_rows) == 1 && p.q_width / 16 <= kMostOneRowSteps * kMmaWarps;
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

// The worker's item of `row`, if it has one. Splits go to workers in turn, their heads side by
// side, rotated by row so that short rows load different workers.
__device__ __forceinline__ bool ItemOf(const DecodeParams& p, int worker, int row,
                                       const SplitPlan& plan, AttentionItem& item) {
  int index = worker - (row * 37) % p.worker_count;
  if (index < 0) index += p.worker_count;
  if (index >= plan.split_count * p.kv_heads) return false;
  const int split = index / p.kv_heads;
  const int begin = plan.first_page + split * plan.pages_per_split;
  const int end = min(begin + plan.pages_per_split, plan.first_page + plan.page_count);
  item = {uint16_t(index % p.kv_heads), uint16_t(split), uint16_t(begin), uint16_t(end), plan.low};
  return true;
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
  return {0, count};
}

}  // namespace baton::cuda
