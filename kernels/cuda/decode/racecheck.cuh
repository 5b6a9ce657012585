// The check build, BATON_RACECHECK, for compute-sanitizer's racecheck. Of shared memory the tool
// knows what each thread of one block did, and what its barriers order: of an mbarrier, what the
// arriving and the waiting thread did themselves. So in this build
// - every lane arrives where else one lane does for its warp or its group; both teams of MMA warps
//   take every chunk of weights, so that none sees a barrier only every other phase,
// - words that are read and written at any time are accessed with atomics,
// - where several warps write the same to the same place, one does: in MakeList the others wait for
//   it, in ClearDeadValues each warp of a pair clears the half that it reads,
// - a fence parts what a lane has read from the bulk copies that come after its arrival. The served
//   kernel has none: the reads are done when the lane arrives, and the copy starts after that,
// - no role reads what it has not waited for, not even to throw it away: WaitRouting waits without
//   rows, too,
// - all roles of a worker meet between layers (WorkerGroup::MeetAtLayer), where else other workers
//   keep them apart, and once the head's products are made: of the MMA warps that made one the tool
//   does not take it that the others, too, are done with what lies there.
// Without the macro all of this is what it stands for: one arrival, a volatile access, nothing.
#pragma once

#include "kernels/cuda/decode/ptx_sm90.cuh"

namespace baton::cuda {

#ifdef BATON_RACECHECK
inline constexpr bool kRacecheck = true;
#else
inline constexpr bool kRacecheck = false;
#endif

// What a barrier counts for each arrival of a warp.
inline constexpr int kWarpArrivals = kRacecheck ? 32 : 1;

// A warp arrives, past __syncwarp: those of its lanes that `arrives` is true in, or, in the check
// build, every lane once.
__device__ __forceinline__ void WarpArrive(const uint64_t& barrier, bool arrives) {
  if constexpr (kRacecheck) {
    ProxyFence();
    BarrierArrive(SmemAddress(&barrier));
    __syncwarp();  // The barrier's address may be lane 0's to change.
  } else {
    if (arrives) BarrierArrive(SmemAddress(&barrier));
  }
}

// A word of shared memory that other threads read, or write, at any time.
__device__ __forceinline__ uint32_t LoadShared(const uint32_t& word) {
  if constexpr (kRacecheck) {
    return atomicOr(const_cast<uint32_t*>(&word), 0u);
  } else {
    return *const_cast<const volatile uint32_t*>(&word);
  }
}
__device__ __forceinline__ void StoreShared(uint32_t& word, uint32_t value) {
  if constexpr (kRacecheck) {
    atomicExch(&word, value);
  } else {
    *const_cast<volatile uint32_t*>(&word) = value;
  }
}

}  // namespace baton::cuda
