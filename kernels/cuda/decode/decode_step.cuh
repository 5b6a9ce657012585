// The kernel itself: set-up and the walk over the worker's tasks. Instantiated once per row-tile
// count, each in a file of its own, so that they compile side by side.
#pragma once

#include "kernels/cuda/decode/attention_merge.cuh"
#include "kernels/cuda/decode/direct_rows.cuh"
#include "kernels/cuda/decode/down_rows.cuh"
#include "kernels/cuda/decode/epilogue_head.cuh"
#include "kernels/cuda/decode/loader.cuh"
#include "kernels/cuda/decode/normalise.cuh"
#include "kernels/cuda/decode/output_rows.cuh"

namespace baton::cuda {

template <int NT>
__device__ void SetUp(const DecodeParams& p, const Smem& smem, int worker, int tid) {
  ControlSmem& misc = smem.misc();
  if (tid == 0) {
    for (int i = 0; i < kMaxSlots; ++i) {
      for (int ring = 0; ring < kRings; ++ring) {
        BarrierInit(SmemAddress(&misc.rings[ring].full[i]), 1);
        BarrierInit(SmemAddress(&misc.rings[ring].empty[i]),
                    (ring == kWeightRing ? kMmaWarps : kPairWarps) * kWarpArrivals);
      }
    }
    for (int i = 0; i < kMaxStages; ++i) {
      BarrierInit(SmemAddress(&misc.partial_full[i]), kMmaWarps / kTeams<NT> * kWarpArrivals);
      BarrierInit(SmemAddress(&misc.partial_empty[i]), kEpilogueWarps * kWarpArrivals);
    }
    for (int i = 0; NT > 1 && i < kOperandPlaces; ++i) {
      BarrierInit(SmemAddress(&misc.operands_full[i]), 1);
      BarrierInit(SmemAddress(&misc.operands_empty[i]), kMmaWarps * kWarpArrivals);
    }
    if (NT > 1) BarrierInit(SmemAddress(&misc.xs_free), kMmaWarps * kWarpArrivals);
    BarrierInit(SmemAddress(&misc.routing), kRacecheck ? kAttentionThreads : 1);
    if (NT == 1) BarrierInit(SmemAddress(&misc.merged), 1);
    BarrierInitFence();
    misc.aborted = 0;
    for (uint32_t& issued : misc.issued) issued = 0;
    for (int role = 0; role < kRoles; ++role) {
      misc.at[role] = {uint32_t(worker), ~0u, 0, 0};
      misc.blocked[role] = {};
      misc.finished[role] = role == kOperandRole && NT == 1;  // There is none.
    }
    misc.active_count = 0;
    misc.expert_sum = 0;
    misc.wait_memory = misc.wait_routing = misc.wait_join = misc.wait_other = 0;
  }
  if (tid < kAttentionWarps) misc.page_cursors[tid] = {};
  if (NT > 1 && tid < kMmaWarps) misc.operand_cursors[tid] = {};
  if (tid < kRoles * kMmaWarps) misc.routed[tid / kMmaWarps][tid % kMmaWarps] = ~0u;
  if (tid < kMaxRows) {
    const RowState& s = *p.rows;
    const bool active = tid < p.row_limit && s.active[tid] != 0;
    misc.position[tid] = s.position[tid];
    // After an abort the token may be none: the embedding is not read past its end.
    misc.token[tid] = min(max(s.token[tid], 0), p.vocab - 1);
    misc.temperature[tid] = s.temperature[tid];
    misc.seed[tid] = s.seed[tid];
    misc.ring_size[tid] = max(1, s.ring_size[tid]);
    const uint32_t mask = __ballot_sync(~0u, active);
    if (tid == 0) {
      misc.active_rows = mask;
      smem.slices()[0] = {mask, 0, 0};
    }
    if (kLists<NT> && tid < 8 * NT) smem.slice_scores()[tid] = kOneBf16;
    if (kLists<NT> && active) smem.slice_rows()[__popc(mask & ((1u << tid) - 1))] = tid;
    if (active) {
      const int page = s.position[tid] >> 6;
      misc.write_page[0][tid] =
          p.kv_group_offset[0] +
          (p.kv_page_bytes[0]
               ? p.full_table[uint64_t(tid) * p.full_stride + page] * p.kv_page_bytes[0]
               : 0);
      misc.write_page[1][tid] =
          p.kv_group_offset[1] +
          (p.kv_page_bytes[1]
               ? p.window_table[uint64_t(tid) * p.window_stride + page % misc.ring_size[tid]] *
                     p.kv_page_bytes[1]
               : 0);
    }
  }
  if (tid < 2 * kMaxRows) {
    const int kind = tid / kMaxRows, row = tid % kMaxRows;
    const SplitPlan plan = PlanSplits(p, p.rows->position[row], kind != 0);
    const bool active = row < p.row_limit && p.rows->active[row] != 0;
    const bool has = active && ItemOf(p, worker, row, plan, misc.items[kind][row]);
    const uint32_t mask = __ballot_sync(~0u, has);
    if (row == 0) misc.item_rows[kind] = mask;
    misc.splits[kind][row] = plan.split_count;
  }
  for (int e = tid; e < p.expert_limit; e += kThreads) smem.expert_rows()[e] = 0;
  // Cosines and sines of the owned query and key rows: the same for every layer of the step.
  const Task* tasks = p.tasks + worker * p.task_stride;  // The MMA warps' list.
  for (int i = 0; tasks[i].op != kEndOfList; ++i) {
    if (tasks[i].op != OpKind::kQkvRope) continue;
    const int pairs = (tasks[i].end - tasks[i].begin) * 4;
    for (int j = tid; j < pairs * 8 * NT; j += kThreads) {
      const int column = j % (8 * NT);
      const int row = tasks[i].begin * 8 + 2 * (j / (8 * NT));
      const int pair = row % kHeadDim / 2;
      const float frequency = exp2f(-pair * p.rope_log2_theta_over_half);
      const float angle = static_cast<float>(p.rows->position[column]) * frequency;
      float sine, cosine;
      sincosf(angle, &sine, &cosine);
      smem.rope(worker)[j] = PackBf16(cosine, sine);
    }
    break;
  }
}

template <int NT>
__device__ void RunMma(const Smem& smem, int worker, int tid) {
  MmaGroup<NT> c(smem, worker, tid);
  const DecodeParams& p = smem.p;
  if (tid == 0) c.misc.start = clock64();
  while (true) {
    const int last_layer = c.entered;
    if (!c.Next()) break;
    const OpKind op = c.task().op;
    c.Trace(kTaskBegins);
    if (op == OpKind::kOutputProj && SoleRowPackets<NT>(p, c.misc)) {
      if constexpr (NT == 1) OutputOneRow(c);
    } else if (op == OpKind::kOutputProj || op == OpKind::kDown) {
      const uint32_t waited = c.WaitTask();
      if (tid == 0) c.misc.wait_other += waited;
      c.Trace(kTaskWaited);
      if constexpr (NT > 1) {
        if (op == OpKind::kDown) {
          DownRows<NT>(c).Run();
        } else {
          OutputRows<NT>(c).Run();
        }
      } else if (op == OpKind::kDown && FitsOneRow(c)) {
        DownOneRow(c);
      } else {
        DirectRows(c).Run();
      }
    } else {
      // The head's layer has no constants of its own.
      if (last_layer != c.entered || op == OpKind::kLmHead) {
        const long long begin = clock64();
        if (NT > 1) c.WaitTask();
        LoadNormalised(c, op == OpKind::kLmHead ? p.final_norm : c.layer().norm);
        if (tid == 0) c.misc.wait_join += clock64() - begin;
      }
      c.Trace(kTaskWaited);
      MultiplyRows(c);
    }
    c.Trace(kTaskDone);
  }
  c.Finish();
  if (tid == 0) {
    WorkerStats& stats = p.stats[worker];
    stats.cycles += clock64() - c.misc.start;
    stats.wait_memory += c.misc.wait_memory;
    stats.wait_routing += c.misc.wait_routing;
    stats.join_and_norm += c.misc.wait_join;
    stats.wait_other += c.misc.wait_other;
  }
}

template <int NT>
__device__ void RunAttentionRole(const Smem& smem, int worker, int tid) {
  AttentionGroup c(smem, worker, tid);
  PageRing ring{c};
  while (c.Next()) {
    const OpKind op = c.task().op;
    if (op == OpKind::kAttention) {
      c.Trace(kTaskBegins, kFirstPairThread);
      RunRouting<NT>(c);
      RunAttention(c, ring);
    } else {
      c.Trace(kTaskBegins);
      RunAttentionMerge<NT>(c);
      c.Trace(kTaskDone);
      if (SoleRowPackets<NT>(smem.p, c.misc)) {
        c.Count();
        if (c.tid == 0) {
          BarrierArrive(SmemAddress(&c.misc.merged));
          // No phase without a wait for it, also where the worker owns no rows of OutputProj.
          c.Wait(c.misc.merged, c.task().layer & 1, kWaitTile);
        }
      } else {
        c.Signal();
      }
      c.Trace(kTaskPublished);
    }
  }
  c.Finish();
}

template <int NT>
__device__ void RunEpilogue(const Smem& smem, int worker, int tid) {
  EpilogueGroup<NT> c(smem, worker, tid);
  while (c.Next()) {
    switch (c.task().op) {
      case OpKind::kEmbed:
        c.Trace(kTaskBegins);
        RunEmbed(c);
        c.Trace(kTaskDone);
        c.TellX();
        break;
      case OpKind::kOutputProj:
      case OpKind::kDown:
        FinishHidden(c);
        c.TellX();
        break;
      case OpKind::kLmHead:
        FinishLmHead(c);
        c.Signal();
        break;
      case OpKind::kSample:
        c.Trace(kTaskBegins);
        c.WaitTask();
        c.Trace(kTaskWaited);
        RunSample(c);
        c.Trace(kTaskDone);
        c.Signal();
        break;
      case OpKind::kGateUp:
        FinishRows(c);
        c.Signal();
        break;
      default:  // Router and QkvRope.
        FinishRows(c);
        c.Count();
    }
    c.Trace(kTaskPublished);
  }
  c.Finish();
}

// A warp a ring, one for Down's operands, and one that watches over all.
template <int NT>
__device__ __forceinline__ void RunLoader(const Smem& smem, int worker, int tid) {
  const int warp = tid / 32, lane = tid % 32;
  if (warp == kWeightWarp) {
    WeightLoader(smem, worker, lane).Run();
  } else if (warp == kKvWarp) {
    KvLoader(smem, worker, lane).Run();
  } else if (warp == kWatchdogWarp) {
    RunWatchdog(smem.p, smem.misc(), lane);
  } else if constexpr (NT > 1) {
    OperandLoader<NT>(smem, worker, lane).Run();
  }
}

// Registers a thread of each role; together what kThreads threads were launched with.
inline constexpr int kLaunchRegisters = 96;
inline constexpr int kMmaRegisters = 120, kAttentionRegisters = 128, kEpilogueRegisters = 64,
                     kLoaderRegisters = 48;
static_assert(kMmaThreads * kMmaRegisters + kAttentionThreads * kAttentionRegisters +
                  kEpilogueThreads * kEpilogueRegisters + kLoaderWarps * 32 * kLoaderRegisters <=
              kThreads * kLaunchRegisters);

template <int NT>
__global__ void __launch_bounds__(kThreads, 1) DecodeStep(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) char shared[];
  const Smem smem{shared, p};
  const int worker = blockIdx.x, tid = threadIdx.x;
  SetUp<NT>(p, smem, worker, tid);
  __syncthreads();
  constexpr int kAttentionBegin = kMmaThreads;
  constexpr int kEpilogueBegin = kAttentionBegin + kAttentionThreads;
  constexpr int kLoaderBegin = kEpilogueBegin + kEpilogueThreads;
  if (tid < kAttentionBegin) {
    RaiseRegisters<kMmaRegisters>();
    RunMma<NT>(smem, worker, tid);
  } else if (tid < kEpilogueBegin) {
    RaiseRegisters<kAttentionRegisters>();
    RunAttentionRole<NT>(smem, worker, tid - kAttentionBegin);
  } else if (tid < kLoaderBegin) {
    LowerRegisters<kEpilogueRegisters>();
    RunEpilogue<NT>(smem, worker, tid - kEpilogueBegin);
  } else {
    LowerRegisters<kLoaderRegisters>();
    RunLoader<NT>(smem, worker, tid - kLoaderBegin);
  }
}

}  // namespace baton::cuda
