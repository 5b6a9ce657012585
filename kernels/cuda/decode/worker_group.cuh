// What the groups of warps that walk a worker's task list have in common: their barrier, the
// current task and layer, waits and signals.
//
// MMA warps multiply, epilogue warps finish the products and write them, attention warps route and
// attend. Each walks the whole list and does its part of a task; chunk queues and partial tiles
// order them within the worker, counters between workers.
#pragma once

#include "kernels/cuda/decode/waits.cuh"
#include "kernels/cuda/expert_key.cuh"

namespace baton::cuda {

template <Role kRole, int kThreadCount>
struct WorkerGroup {
  const DecodeParams& p;
  const Smem& smem;
  ControlSmem& misc;
  const int worker, tid, warp, lane;  // tid and warp within the group.
  int task_index = 0;
  Task task{};
  int entered = -1;  // Layer whose constants this role has in shared memory.

  __device__ WorkerGroup(const Smem& s, int w, int t)
      : p(s.p), smem(s), misc(s.misc()), worker(w), tid(t), warp(t >> 5), lane(t & 31) {}

  // For errors: where the role is.
  __device__ auto Here() const {
    const WaitContext* at = &misc.at[kRole];
    return [at] { return *at; };
  }
  __device__ void Sync() const { NamedBarrier(1 + kRole, kThreadCount); }
  __device__ bool RowActive(int column) const { return misc.active_rows >> column & 1; }
  __device__ const LayerDevice& layer() const { return misc.layer[kRole][entered & 1]; }

  // Starts the copy of a layer's constants to shared memory.
  __device__ void PrefetchLayer(int l) const {
    if (tid < int(sizeof(LayerDevice) / 16) && l < p.layer_count) {
      AsyncCopy16(SmemAddress(reinterpret_cast<char*>(&misc.layer[kRole][l & 1]) + tid * 16),
                  reinterpret_cast<const char*>(&p.layers[l]) + tid * 16);
    }
  }
  // Makes task `index` the current one.
  __device__ void Enter(int index, const Task* tasks) {
    task_index = index;
    const uint4* from = reinterpret_cast<const uint4*>(tasks + index);
    reinterpret_cast<uint4*>(&task)[0] = from[0];
    reinterpret_cast<uint4*>(&task)[1] = from[1];
    if (tid == 0)
      misc.at[kRole] = {uint32_t(worker), uint32_t(index), uint32_t(task.op), task.layer};
    const int l = min(int(task.layer), p.layer_count - 1);
    if (l != entered) {
      if (l != entered + 1 || entered < 0) {  // Not copied ahead; its place may be in use.
        AsyncCopyWait();
        Sync();
        PrefetchLayer(l);
      }
      AsyncCopyWait();
      Sync();  // The copy is complete, and nobody is at layer l - 1 any more.
      entered = l;
      PrefetchLayer(l + 1);
    }
    if (p.delay_seed != 0 && tid == 0) InjectDelay();
  }
  __device__ void InjectDelay() const {
    const uint32_t hash = HashMix(p.delay_seed + p.step, (worker * 4 + kRole) * 4096 + task_index);
    if ((hash & 15) != 0) return;
    const uint64_t until = GlobalTimerNs() + (hash >> 8) % 20000;
    while (GlobalTimerNs() < until) {
    }
  }
  // phase 0: begins; 1: its waits are over; 2: done.
  __device__ void Trace(int phase) const {
    if (p.trace == nullptr || tid != 0 || task_index * 3 + phase >= p.trace_capacity) return;
    p.trace[uint64_t(worker) * p.trace_capacity + task_index * 3 + phase] = {
        GlobalTimerNs(), uint16_t(task_index), uint8_t(phase), uint8_t(task.op), task.layer};
  }

  // Returns the cycles waited (of thread 0; 0 elsewhere).
  __device__ long long WaitTask() const {
    long long waited = 0;
    if (tid == 0) {
      const long long start = clock64();
      for (int i = 0; i < 2; ++i) {
        const TaskWait w = task.waits[i];
        if (w.counter == kNoCounter) continue;
        WaitCounter(p, misc, Here(), w.counter, w.producers * p.step);
      }
      waited = clock64() - start;
    }
    Sync();
    return waited;
  }
  // The task's active list is ready. Returns the cycles waited. Asked once a layer: where its later
  // tasks have no slices, the next layer's routing may be there before this role is through with
  // them. Without rows nothing holds the next layer back at all, and the list stays empty.
  __device__ long long WaitRouting() const {
    uint32_t& routed = misc.routed[kRole][warp];
    if (routed >> 16 == task.layer) return 0;
    const long long waited = misc.active_rows == 0 ? 0 : WaitRoutingPhase();
    __syncwarp();
    if (lane == 0) routed = uint32_t(task.layer) << 16 | uint32_t(misc.active_count);
    __syncwarp();
    return waited;
  }
  // Active experts of the layer whose routing was waited for.
  __device__ int ActiveCount() const { return misc.routed[kRole][warp] & 0xffff; }
  __device__ long long WaitRoutingPhase() const {
    const uint32_t barrier = SmemAddress(&misc.routing);
    const uint32_t parity = task.layer & 1;
    if (BarrierTest(barrier, parity)) return 0;
    const long long start = clock64();
    WaitBarrier(p, misc, Here(), barrier, parity, kWaitRouting);
    return clock64() - start;
  }
  // Tests: what the task tells others, by packets or its counter, is lost.
  __device__ bool Lost() const {
    return p.drop_signal_worker == uint32_t(worker) && p.drop_signal_counter == task.signal;
  }
  // All the group's stores of the task become visible to who waits for the counter.
  __device__ void Signal() const {
    if (task.signal == kNoCounter) return;
    Sync();
    if (tid != 0 || Lost()) return;
    FenceGpu();
    AddRelaxed(p.counters + task.signal * kCounterStride, 1);
  }
};

// Byte offset in a fragment buffer of `steps` k-steps of the pair k, k + 1 (k even) of a row.
__device__ __forceinline__ uint32_t FragmentOffset(int steps, int column, int k) {
  return (((column >> 3) * steps + (k >> 4)) * 32 + (column & 7) * 4 + (k >> 1 & 3)) * 8 +
         (k >> 3 & 1) * 4;
}

// Byte offset of the packet of the pair k, k + 1 of a row of x.
__device__ __forceinline__ uint32_t PacketOffset(int steps, int column, int k) {
  return 2 * FragmentOffset(steps, column, k);
}
// What the packets of x and of the router logits that a layer reads carry. Wraps; the host clears
// packets long before they could pass for later ones (kEpochLayers).
__device__ __forceinline__ uint32_t PacketEpoch(uint32_t step, int layer) {
  return step * kEpochLayers + layer;
}

}  // namespace baton::cuda
