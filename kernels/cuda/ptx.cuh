// Hopper instructions that CUDA C++ has no names for and more than one kernel needs: barriers in
// shared memory, copies to it, registers of a warp group; and pairs of bf16. Device code only.
// Source of the semantics: PTX ISA 8.0 and later.
#pragma once

#include <cstdint>

namespace baton::cuda {

__device__ __forceinline__ uint32_t SmemAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void BarrierInit(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}
__device__ __forceinline__ void BarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void BarrierExpect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void BarrierArrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Whether the phase with `parity` has completed; may suspend for a moment before it says no.
__device__ __forceinline__ bool BarrierTryWait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// 16 bytes, global to shared, by this thread; AsyncCopyWait waits for all of its copies.
__device__ __forceinline__ void AsyncCopy16(uint32_t destination, const void* source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(source)
               : "memory");
}
__device__ __forceinline__ void AsyncCopyWait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// What this thread did to shared memory comes before bulk copies that are started from now on.
__device__ __forceinline__ void ProxyFence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Registers of a thread of this warp group from here on: a multiple of 8; all its warps call it.
template <int kRegisters>
__device__ __forceinline__ void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Two floats to packed bf16, the first in the low half, and back.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ __forceinline__ float LowFloat(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float HighFloat(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

}  // namespace baton::cuda
