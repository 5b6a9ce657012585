// What the groups of warps that walk a worker's task list have in common: their barrier, the
// current task and layer, waits and signals.
//
// MMA warps multiply, epilogue warps finish the products and write them, attention warps route and
// attend. Each walks its part of the worker's list; rings and partial tiles order them within the
// worker, counters and packets between workers.
#pragma once

#include "kernels/cuda/decode/waits.cuh"
#include "kernels/cuda/expert_key.cuh"

namespace baton::cuda {

template <Role kRole, int kThreadCount>
struct WorkerGroup {
  const DecodeParams& p;
  const Smem& smem;
  ControlSmem& misc;
  const int worker;
  int tid, warp, lane;  // tid and warp within the group.
  int entered = -1;     // Layer whose constants this role has in shared memory.
#ifdef BATON_RACECHECK
  int met = 0;  // Layer before which the role met the others last.
#endif

  __device__ WorkerGroup(const Smem& s, int w, int t)
      : p(s.p), smem(s), misc(s.misc()), worker(w), tid(t), warp(t >> 5), lane(t & 31) {
    FetchTask(0);
  }
  // The current task. It lies in shared memory: what a warp rarely needs it does not keep in
  // registers, since spilled ones come from L2, as every fence empties L1.
  __device__ Task& task() const { return misc.task[FirstWarp(kRole) + Opaque(warp)]; }
  __device__ Task& NextTask() const { return misc.next_task[FirstWarp(kRole) + Opaque(warp)]; }

  __device__ void Wait(const uint64_t& barrier, uint32_t parity, WaitKind kind) const {
    WaitBarrier(misc, kRole, SmemAddress(&barrier), parity, kind);
  }
  __device__ void WaitFor(uint32_t counter, uint32_t producers) const {
    WaitCounter(p, misc, kRole, counter, producers * p.step);
  }
  // At the end of the role's list, or after an abort before it.
  __device__ void Finish() {
    MeetAtLayer(p.layer_count + 1);
    if (tid == 0) StoreShared(misc.finished[kRole], 1);
  }
  __device__ void Sync() const { NamedBarrier(1 + kRole, kThreadCount); }
  // Check build: before a task of layer l the role waits until all roles of the worker, which are
  // all threads but the watchdog's and those that have none, are done with the layers before it.
  // Tasks need nothing of later layers, and no role leaves without having met the others as often.
  __device__ void MeetAtLayer([[maybe_unused]] int l) {
#ifdef BATON_RACECHECK
    __syncwarp();
#pragma unroll 1
    for (; met < l; ++met) NamedBarrier(3 + kRoles, kThreads - 32 * (p.row_tiles > 1 ? 1 : 2));
#endif
  }
  __device__ bool RowActive(int column) const { return misc.active_rows >> column & 1; }
  __device__ const LayerDevice& layer() const { return misc.layer[kRole][entered & 1]; }

  // Starts the copy of a layer's constants to shared memory.
  __device__ void PrefetchLayer(int l) const {
    if (tid < int(sizeof(LayerDevice) / 16) && l < p.layer_count) {
      AsyncCopy16(SmemAddress(reinterpret_cast<char*>(&misc.layer[kRole][l & 1]) + tid * 16),
                  reinterpret_cast<const char*>(&p.layers[l]) + tid * 16);
    }
  }
  __device__ void FetchTask(int index) const {
    const Task* list = p.tasks + (ListOf(kRole) * p.worker_count + worker) * p.task_stride;
    if (lane < int(sizeof(Task) / 16)) {
      AsyncCopy16(SmemAddress(&NextTask()) + lane * 16,
                  reinterpret_cast<const char*>(list + index) + lane * 16);
    }
  }
  // Makes the role's next task the current one; false at the end of its list.
  __device__ bool Next() {
    // Addresses of all ops' data, worked out before the loop, would fill the registers.
    if (kRole == kMmaRole || kRole == kAttentionRole || kRole == kEpilogueRole) {
      tid = Opaque(tid);
      warp = Opaque(warp);
      lane = Opaque(lane);
    }
    AsyncCopyWait();
    __syncwarp();
    if (lane < int(sizeof(Task) / 16))
      reinterpret_cast<uint4*>(&task())[lane] = reinterpret_cast<const uint4*>(&NextTask())[lane];
    __syncwarp();
    if (task().op == kEndOfList) return false;
    MeetAtLayer(task().layer);
    if (tid == 0) {
      RecordPlace(misc, kRole, {uint32_t(worker), task().index, uint32_t(task().op), task().layer});
    }
    const int l = min(int(task().layer), p.layer_count - 1);
    if (l != entered) {
      if (l != entered + 1 || entered < 0) {  // Not copied ahead; its place may be in use.
        Sync();
        PrefetchLayer(l);
        AsyncCopyWait();
      }
      Sync();  // All copies are complete, and nobody is at layer l - 1 any more.
      entered = l;
      PrefetchLayer(l + 1);
    }
    FetchTask(task().role_index + 1);
    if (p.delay_seed != 0 && tid == 0) InjectDelay(0);
    return true;
  }
  // Tests: by one thread, now and then a delay of up to 20 us, by a hash of where it is.
  __device__ void InjectDelay(int place) const {
    const uint32_t hash = HashMix(p.delay_seed + p.step + place * 7919,
                                  (worker * 8 + kRole) * 4096 + task().role_index);
    if ((hash & 15) != 0) return;
    const uint64_t until = GlobalTimerNs() + (hash >> 8) % 20000;
    while (GlobalTimerNs() < until) {
    }
  }
  // The same for each warp of the group by itself.
  __device__ void InjectWarpDelay() const {
    if (p.delay_seed == 0) return;
    if (lane == 0) InjectDelay(1 + warp);
    __syncwarp();
  }
  // By thread `by` of the group.
  __device__ void Trace(TracePhase phase, int by = 0) const {
    if (!kTraced || p.trace == nullptr || tid != by) return;
    const uint32_t at = task().index * kTracePhases + phase;
    if (at >= uint32_t(p.trace_capacity)) return;
    p.trace[uint64_t(worker) * p.trace_capacity + at] = {GlobalTimerNs(), uint32_t(task().op),
                                                         task().layer};
  }

  // Returns the cycles waited (of thread 0; 0 elsewhere).
  __device__ long long WaitTask() const {
    long long waited = 0;
    if (tid == 0) {
      const long long start = clock64();
      for (int i = 0; i < 2; ++i) {
        const TaskWait w = task().waits[i];
        if (w.counter == kNoCounter) continue;
        WaitFor(w.counter, w.producers);
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
    if (routed >> 16 == task().layer) return 0;
    const bool waits = misc.active_rows != 0 || kRacecheck;
    const long long waited = waits ? WaitRoutingPhase() : 0;
    __syncwarp();
    if (lane == 0) routed = uint32_t(task().layer) << 16 | uint32_t(misc.active_count);
    __syncwarp();
    return waited;
  }
  // Active experts of the layer whose routing was waited for.
  __device__ int ActiveCount() const { return misc.routed[kRole][warp] & 0xffff; }
  __device__ long long WaitRoutingPhase() const {
    const uint32_t parity = task().layer & 1;
    if (BarrierTest(SmemAddress(&misc.routing), parity)) return 0;
    const long long start = clock64();
    Wait(misc.routing, parity, kWaitRouting);
    return clock64() - start;
  }
  // Tests: what the task tells others, by packets or its counter, is lost.
  __device__ bool Lost() const {
    return p.drop_signal_worker == uint32_t(worker) && p.drop_signal_counter == task().signal;
  }
  // All the group's stores of the task become visible to who waits for the counter.
  __device__ void Signal() const {
    if (task().signal == kNoCounter) return;
    Sync();
    if (tid == 0) Tell();
  }
  // By one thread, of the stores that it knows of.
  __device__ void Tell() const {
    if (Lost()) return;
    FenceGpu();
    AddRelaxed(p.counters + task().signal * kCounterStride, 1);
  }
  // The same where readers take packets, which need no fence: the counter says how far they are.
  __device__ void Count() const {
    if (task().signal == kNoCounter) return;
    Sync();
    if (tid == 0 && !Lost()) AddRelaxed(p.counters + task().signal * kCounterStride, 1);
  }
  // Of the packets that the task's readers of `layer` take.
  __device__ uint32_t Epoch(int layer) const { return p.step * kEpochLayers + layer; }
  // Runs `load` until it finds, in every lane of the warp, all packets that it is for. `counter`
  // counts their writers.
  template <typename Load>
  __device__ void WaitPackets(uint32_t counter, Load&& load) const {
    bool recorded = false;
    while (!__all_sync(~0u, load())) {
      if (!recorded) Record(misc, kRole, {kWaitPacket, counter, Epoch(task().layer)});
      recorded = true;
      if (__any_sync(~0u, Ending(misc))) return;
    }
  }
};

// A packet is 64 bits: data below, the epoch of its write above, so that data and news of it are
// one access and need no fence. Epochs wrap; the host clears packets long before they could pass
// for later ones (kEpochLayers).
__device__ __forceinline__ bool Has(uint64_t packet, uint32_t epoch) {
  return uint32_t(packet >> 32) == epoch;
}
__device__ __forceinline__ bool Has(const ulonglong2& packets, uint32_t epoch) {
  return Has(packets.x, epoch) && Has(packets.y, epoch);
}

// Row tiles that hold `rows` rows.
__device__ __forceinline__ int TilesFor(int rows) { return (rows + 7) >> 3; }

// Byte offset in a fragment buffer of `steps` k-steps of the pair k, k + 1 (k even) of a row.
__device__ __forceinline__ uint32_t FragmentOffset(int steps, int column, int k) {
  return (((column >> 3) * steps + (k >> 4)) * 32 + (column & 7) * 4 + (k >> 1 & 3)) * 8 +
         (k >> 3 & 1) * 4;
}

// The same where rows lie one after the other, a row's k-steps each as in a fragment buffer.
__device__ __forceinline__ uint32_t RowOffset(int steps, int row, int k) {
  return (row * steps + (k >> 4)) * 32 + (k >> 1 & 3) * 8 + (k >> 3 & 1) * 4;
}

// Byte offset of the packet of the pair k, k + 1 of a row in a fragment buffer of packets.
__device__ __forceinline__ uint32_t PacketOffset(int steps, int column, int k) {
  return 2 * FragmentOffset(steps, column, k);
}

}  // namespace baton::cuda
