// The kernel itself: set-up and the walk over the worker's tasks. Instantiated once per row-tile
// count, each in a file of its own, so that they compile side by side.
#pragma once

#include "kernels/cuda/decode/loader.cuh"
#include "kernels/cuda/decode/ops_attention.cuh"
#include "kernels/cuda/decode/ops_head.cuh"
#include "kernels/cuda/decode/ops_layer.cuh"
#include "kernels/cuda/decode/routing.cuh"

namespace baton::cuda {

template <int NT>
__device__ void SetUp(const DecodeParams& p, const Smem& smem, int worker, int tid) {
  ControlSmem& misc = smem.misc();
  if (tid == 0) {
    for (int q = 0; q < 2; ++q) {
      for (int i = 0; i < kQueueEntries; ++i) {
        BarrierInit(SmemAddress(&misc.full[q][i]), 1);
        BarrierInit(SmemAddress(&misc.empty[q][i]), kConsumerWarps);
        misc.slot[q][i] = 0;
      }
      misc.planned[q] = misc.issued[q] = misc.next_task[q] = 0;
    }
    BarrierInit(SmemAddress(&misc.routing), 1);
    BarrierInitFence();
    misc.aborted = 0;
    misc.active_count = 0;
  }
  if (tid < kMaxRows) {
    const RowState& s = *p.rows;
    const bool active = tid < p.row_limit && s.active[tid] != 0;
    misc.position[tid] = s.position[tid];
    misc.token[tid] = s.token[tid];
    misc.temperature[tid] = s.temperature[tid];
    misc.seed[tid] = s.seed[tid];
    misc.ring_size[tid] = max(1, s.ring_size[tid]);
    const uint32_t mask = __ballot_sync(~0u, active);
    if (tid == 0) misc.active_rows = mask;
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
  for (int e = tid; e < p.expert_limit; e += kThreads) {
    smem.row_mask()[e] = 0;
    smem.active_id()[e] = 0;
  }
  // Cosines and sines of the owned query and key rows: the same for every layer of the step.
  const Task* tasks = p.tasks + uint64_t(worker) * p.task_stride;
  const int task_count = p.task_counts[worker];
  if (p.smem.tasks != kTasksInGlobal) {
    const uint4* from = reinterpret_cast<const uint4*>(tasks);
    uint4* to = reinterpret_cast<uint4*>(smem.base + p.smem.tasks);
    for (int i = tid; i < task_count * int(sizeof(Task) / 16); i += kThreads) to[i] = from[i];
  }
  for (int i = 0; i < task_count; ++i) {
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
      smem.rope()[j] = PackBf16(cosine, sine);
    }
    break;
  }
}

__device__ __forceinline__ void InjectDelay(const DecodeParams& p, int worker, int task) {
  const uint32_t hash = HashMix(p.delay_seed + p.step, worker * 4096 + task);
  if ((hash & 15) != 0) return;
  const uint64_t until = GlobalTimerNs() + (hash >> 8) % 20000;
  while (GlobalTimerNs() < until) {
  }
}

template <int NT>
__device__ void RunTasks(Consumer<NT>& c) {
  const DecodeParams& p = c.p;
  const Task* tasks = c.smem.tasks(c.worker);
  const int task_count = p.task_counts[c.worker];
  int normalised = -1;
  if (kNormAhead<NT>) PrefetchNorm(c, p.layers[0].norm);
  const auto trace = [&](int phase) {
    if (p.trace == nullptr || c.tid != 0 || c.task_index * 3 + phase >= p.trace_capacity) return;
    p.trace[uint64_t(c.worker) * p.trace_capacity + c.task_index * 3 + phase] = {
        GlobalTimerNs(), uint16_t(c.task_index), uint8_t(phase), uint8_t(c.task.op), c.task.layer};
  };
  int copied = -1;  // Layer whose constants are in shared memory.
  for (c.task_index = 0; c.task_index < task_count; ++c.task_index) {
    c.task = tasks[c.task_index];
    if (p.delay_seed != 0 && c.tid == 0) InjectDelay(p, c.worker, c.task_index);
    trace(0);
    const OpKind op = c.task.op;
    const bool reads_x = op == OpKind::kRouter || op == OpKind::kQkvRope || op == OpKind::kGateUp ||
                         op == OpKind::kLmHead;
    const int l = min(int(c.task.layer), p.layer_count - 1);
    const LayerDevice& layer = c.misc.layer[l & 1];
    if (l != copied) {  // The layer's first task; it waits, and so syncs, before anything reads the
                        // copy.
      constexpr int kWords = sizeof(LayerDevice) / 8;
      if (c.tid < kWords) {
        reinterpret_cast<uint64_t*>(&c.misc.layer[l & 1])[c.tid] =
            reinterpret_cast<const uint64_t*>(&p.layers[l])[c.tid];
      }
      copied = l;
    }
    if (reads_x && normalised != c.task.layer) {
      c.WaitTask();
      const int after = c.task.layer + 1;
      LoadNormalised(c, op == OpKind::kLmHead ? p.final_norm : layer.norm,
                     after < p.layer_count ? p.layers[after].norm : p.final_norm);
      normalised = c.task.layer;
    } else if (!reads_x) {
      c.WaitTask();
    }
    trace(1);
    switch (op) {
      case OpKind::kEmbed:
        RunEmbed(c);
        break;
      case OpKind::kRouter:
      case OpKind::kQkvRope:
      case OpKind::kGateUp:
        RunRows(c, layer, [](int, int, int, bool, float) {});
        if (c.task.signal != kNoCounter) c.Signal();
        break;
      case OpKind::kAttention:
        RunAttention(c, layer);
        break;
      case OpKind::kAttentionMerge:
        RunAttentionMerge(c, layer);
        break;
      case OpKind::kOutputProj:
      case OpKind::kDown:
        RunGlobalRows(c, layer);
        break;
      case OpKind::kLmHead:
        RunLmHead(c);
        break;
      case OpKind::kSample:
        RunSample(c);
        break;
    }
    trace(2);
  }
}

template <int NT>
__global__ void __launch_bounds__(kThreads, 1) DecodeStep(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) char shared[];
  const Smem smem{shared, p};
  const int worker = blockIdx.x, tid = threadIdx.x;
  SetUp<NT>(p, smem, worker, tid);
  __syncthreads();
  const int warp = tid >> 5;
  if (warp < kConsumerWarps) {
    Consumer<NT> consumer(p, smem, worker, tid);
    const long long start = clock64();
    RunTasks(consumer);
    if (tid == 0) {
      WorkerStats& stats = p.stats[worker];
      stats.cycles += clock64() - start;
      stats.wait_memory += consumer.wait_memory;
      stats.wait_routing += consumer.wait_routing;
      stats.wait_join += consumer.wait_join;
      stats.wait_other += consumer.wait_other;
      stats.steps += 1;
    }
  } else if (warp == kConsumerWarps) {
    if ((tid & 31) == 0) RunIssuer(p, smem, worker);
  } else if (warp == kConsumerWarps + 1) {
    RunRouting<NT>(p, smem, worker, tid & 31);
  } else if ((tid & 31) == 0) {
    const Task* tasks = smem.tasks(worker);
    if (warp == kConsumerWarps + 2) {
      StaticCursor cursor{p, smem.misc(), tasks, p.task_counts[worker], worker};
      RunPlanner(p, smem.misc(), cursor, kStaticQueue);
    } else {
      RoutedCursor cursor{p, smem, tasks, p.task_counts[worker]};
      RunPlanner(p, smem.misc(), cursor, kRoutedQueue);
    }
  }
}

}  // namespace baton::cuda
