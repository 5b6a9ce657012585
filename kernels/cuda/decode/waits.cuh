// Bounded waits. Every spin has a time budget; the first that runs out writes who waited for what
// to the pinned error slot and raises the grid's abort flag. From then on no wait blocks: the grid
// runs to its end on stale data, which the host throws away.
#pragma once

#include "kernels/cuda/decode/smem.cuh"

namespace baton::cuda {

enum WaitKind : uint32_t {
  kWaitCounter = 1,
  kWaitRing = 2,
  kWaitRouting = 3,
  kWaitLoader = 4,
  kWaitTile = 5,
  kWaitPacket = 6,
};

static __device__ __noinline__ void RaiseError(const DecodeParams& p, ControlSmem& misc,
                                               const WaitContext& at, WaitKind kind,
                                               uint32_t counter, uint32_t wanted, uint32_t seen) {
  *reinterpret_cast<volatile uint32_t*>(&misc.aborted) = 1;
  if (atomicCAS(p.abort_flag, 0u, 1u) != 0) return;
  ErrorSlot* e = p.error;
  e->kind = kind;
  e->worker = at.worker;
  e->task = at.task;
  e->op = at.op;
  e->layer = at.layer;
  e->counter = counter;
  e->wanted = wanted;
  e->seen = seen;
  __threadfence_system();
  StoreReleaseSystem(&e->raised, p.step);
}

// Whether this worker knows of an abort: its many waits to the end of the lists are then passed at
// once.
__device__ __forceinline__ bool Ending(const ControlSmem& misc) {
  return *reinterpret_cast<const volatile uint32_t*>(&misc.aborted) != 0;
}

// Called now and then from a spin: true if the caller must stop waiting.
__device__ __forceinline__ bool Aborted(const DecodeParams& p, ControlSmem& misc) {
  if (Ending(misc)) return true;
  if (LoadRelaxed(p.abort_flag) != 0) {
    *reinterpret_cast<volatile uint32_t*>(&misc.aborted) = 1;
    return true;
  }
  return false;
}

// `here` gives the WaitContext, asked for only when an error is raised.
// Waits until counter >= target (wrap-safe). The load acquires: what the producers wrote before
// they signalled is visible to this thread, and to those that synchronise with it, from then on.
template <typename Here>
__device__ __forceinline__ void WaitCounter(const DecodeParams& p, ControlSmem& misc, Here&& here,
                                            uint32_t counter, uint32_t target) {
  const uint32_t* address = p.counters + counter * kCounterStride;
  uint32_t seen = LoadAcquire(address);
  if (static_cast<int32_t>(seen - target) >= 0 || Ending(misc)) return;
  const uint64_t start = GlobalTimerNs();
  for (uint32_t spin = 1;; ++spin) {
    seen = LoadAcquire(address);
    if (static_cast<int32_t>(seen - target) >= 0) return;
    if ((spin & 255) == 0) {
      if (Aborted(p, misc)) return;
      if (GlobalTimerNs() - start > p.timeout_ns) {
        RaiseError(p, misc, here(), kWaitCounter, counter, target, seen);
        return;
      }
    }
  }
}

template <typename Here>
__device__ __forceinline__ void WaitBarrier(const DecodeParams& p, ControlSmem& misc, Here&& here,
                                            uint32_t barrier, uint32_t parity, WaitKind kind) {
  if (BarrierTryWait(barrier, parity) || Ending(misc)) return;
  const uint64_t start = GlobalTimerNs();
  for (uint32_t spin = 1;; ++spin) {
    if (BarrierTryWait(barrier, parity)) return;
    if ((spin & 63) == 0) {
      if (Aborted(p, misc)) return;
      if (GlobalTimerNs() - start > p.timeout_ns) {
        RaiseError(p, misc, here(), kind, barrier, parity, 0);
        return;
      }
    }
  }
}

}  // namespace baton::cuda
