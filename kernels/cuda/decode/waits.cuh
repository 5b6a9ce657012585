// Waits. They are tight loops that know no time: a warp of its own, the watchdog, sees to it that
// no step waits for ever. When a role has been at one task for too long it writes who waited for
// what to the pinned error slot and raises the grid's abort flag. From then on no wait blocks: the
// grid runs to its end on stale data, which the host throws away.
#pragma once

#include "kernels/cuda/decode/device_steps.h"
#include "kernels/cuda/decode/smem.cuh"

namespace baton::cuda {

// Whether this worker knows of an abort.
__device__ __forceinline__ bool Ending(const ControlSmem& misc) {
  return LoadShared(misc.aborted) != 0;
}

// For the watchdog: where a role is.
__device__ __forceinline__ void RecordPlace(ControlSmem& misc, Role role, const WaitContext& at) {
  if constexpr (kRacecheck) {
    StoreShared(misc.at[role].worker, at.worker);
    StoreShared(misc.at[role].task, at.task);
    StoreShared(misc.at[role].op, at.op);
    StoreShared(misc.at[role].layer, at.layer);
  } else {
    misc.at[role] = at;
  }
}

// For the watchdog: what a role waits for, or waited for last.
__device__ __forceinline__ void Record(ControlSmem& misc, Role role, const Blocked& blocked) {
  Blocked& to = misc.blocked[role];
  StoreShared(to.kind, blocked.kind);
  StoreShared(to.counter, blocked.counter);
  StoreShared(to.wanted, blocked.wanted);
}

// Waits until counter >= target (wrap-safe). The load acquires: what the producers wrote before
// they signalled is visible to this thread, and to those that synchronise with it, from then on.
__device__ __forceinline__ void WaitCounter(const DecodeParams& p, ControlSmem& misc, Role role,
                                            uint32_t counter, uint32_t target) {
  const uint32_t* address = p.counters + counter * kCounterStride;
  if (static_cast<int32_t>(LoadAcquire(address) - target) >= 0) return;
  Record(misc, role, {kWaitCounter, counter, target});
  while (static_cast<int32_t>(LoadAcquire(address) - target) < 0 && !Ending(misc)) {
  }
}

__device__ __forceinline__ void WaitBarrier(ControlSmem& misc, Role role, uint32_t barrier,
                                            uint32_t parity, WaitKind kind) {
  if (BarrierTryWait(barrier, parity)) return;
  Record(misc, role, {kind, barrier, parity});
  while (!BarrierTryWait(barrier, parity) && !Ending(misc)) {
  }
}

// The first to find something writes it down.
__device__ __forceinline__ void RaiseError(const DecodeParams& p, const WaitContext& at,
                                           const Blocked& blocked) {
  if (atomicCAS(p.abort_flag, 0u, 1u) != 0) return;
  ErrorSlot* e = p.error;
  e->kind = blocked.kind;
  e->worker = at.worker;
  e->task = at.task;
  e->op = at.op;
  e->layer = at.layer;
  e->counter = blocked.counter;
  e->wanted = blocked.wanted;
  e->seen =
      blocked.kind == kWaitCounter ? LoadRelaxed(p.counters + blocked.counter * kCounterStride) : 0;
  __threadfence_system();
  StoreReleaseSystem(&e->raised, RaisedBy(p.step));
}

// One warp, lane r for role r. Ends when all roles have.
static __device__ void RunWatchdog(const DecodeParams& p, ControlSmem& misc, int lane) {
  const bool watches = lane < kRoles;
  const int role = watches ? lane : 0;
  const WaitContext& at = misc.at[role];
  const Blocked& blocked = misc.blocked[role];
  const uint32_t& finished = misc.finished[role];
  uint32_t task = ~0u;
  uint64_t since = GlobalTimerNs();
  while (__any_sync(~0u, watches && LoadShared(finished) == 0)) {
    __nanosleep(5000);
    const uint64_t now = GlobalTimerNs();
    if (LoadShared(at.task) != task) {
      task = LoadShared(at.task);
      since = now;
    }
    // The role that waits for another worker knows best what is missing, the loader least: it has
    // waited longest.
    const uint32_t waits_for = LoadShared(blocked.kind);
    const uint64_t patience = role >= kWeightRole       ? 2 * p.timeout_ns
                              : waits_for > kWaitPacket ? p.timeout_ns + p.timeout_ns / 8
                                                        : p.timeout_ns;
    const bool late = watches && LoadShared(finished) == 0 && now - since > patience;
    const uint32_t kind = late ? waits_for : ~0u;
    const uint32_t first = __reduce_min_sync(~0u, kind);
    if (first != ~0u && !Ending(misc)) {
      if (lane == __ffs(__ballot_sync(~0u, kind == first)) - 1) {
        RaiseError(p,
                   WaitContext{LoadShared(at.worker), LoadShared(at.task), LoadShared(at.op),
                               LoadShared(at.layer)},
                   Blocked{first, LoadShared(blocked.counter), LoadShared(blocked.wanted)});
      }
      __syncwarp();
    }
    if (LoadRelaxed(p.abort_flag) != 0) StoreShared(misc.aborted, 1);
  }
}

}  // namespace baton::cuda
