// The inline PTX of the decode kernel alone: bulk copies, memory order, matrix instructions.
// Each wrapper is one instruction; nothing else in the kernel uses asm.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.cuh"

namespace baton::cuda {

// Whether the phase with `parity` has completed, without suspending.
__device__ __forceinline__ bool BarrierTest(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// 1-D bulk copy, global to shared; completes `bytes` on the barrier. 16-byte aligned, a multiple of
// 16 bytes.
__device__ __forceinline__ void BulkLoad(uint32_t destination, const void* source, uint32_t bytes,
                                         uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}
// The same of what is read once a step, by one worker: the first to leave L2, where it would push
// out what all workers share, code and activations.
__device__ __forceinline__ void BulkLoadOnce(uint32_t destination, const void* source,
                                             uint32_t bytes, uint32_t barrier) {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void AsyncCopyCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kGroups of this thread's committed groups are on their way.
template <int kGroups>
__device__ __forceinline__ void AsyncCopyWaitAllBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}
// What this thread has seen of global memory, or done to shared memory, comes before bulk copies
// that are started from now on.
__device__ __forceinline__ void ProxyFenceAll() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void NamedBarrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Memory order. Data that other SMs wrote in this launch is read with the relaxed gpu-scope loads:
// they are served by L2, the point of coherence, never by L1.
__device__ __forceinline__ uint32_t LoadRelaxed(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ uint32_t LoadAcquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
// Zeros, and nothing read, where `wanted` is false.
__device__ __forceinline__ float4 LoadRelaxed4If(bool wanted, const void* p) {
  float4 v;
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %5, 0; mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000;"
      "mov.f32 %2, 0f00000000; mov.f32 %3, 0f00000000;"
      "@p ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];}"
      : "=&f"(v.x), "=&f"(v.y), "=&f"(v.z), "=&f"(v.w)
      : "l"(p), "r"(uint32_t(wanted))
      : "memory");
  return v;
}
__device__ __forceinline__ float2 LoadRelaxed2If(bool wanted, const void* p) {
  float2 v;
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %3, 0; mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000;"
      "@p ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];}"
      : "=&f"(v.x), "=&f"(v.y)
      : "l"(p), "r"(uint32_t(wanted))
      : "memory");
  return v;
}
__device__ __forceinline__ float LoadRelaxedFloatIf(bool wanted, const void* p) {
  float v;
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %2, 0; mov.f32 %0, 0f00000000;"
      "@p ld.relaxed.gpu.global.f32 %0, [%1];}"
      : "=&f"(v)
      : "l"(p), "r"(uint32_t(wanted))
      : "memory");
  return v;
}
__device__ __forceinline__ uint64_t LoadRelaxed64(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
// Two 64-bit words, each read in one piece; a packet written likewise.
__device__ __forceinline__ ulonglong2 LoadRelaxedPair(const void* p) {
  ulonglong2 v;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(v.x), "=l"(v.y)
               : "l"(p)
               : "memory");
  return v;
}
// Zero, and nothing read, where `wanted` is false.
__device__ __forceinline__ ulonglong2 LoadRelaxedPairIf(bool wanted, const void* p) {
  ulonglong2 v;
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %3, 0; mov.u64 %0, 0; mov.u64 %1, 0;"
      "@p ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];}"
      : "=&l"(v.x), "=&l"(v.y)
      : "l"(p), "r"(uint32_t(wanted))
      : "memory");
  return v;
}
__device__ __forceinline__ void StorePacket(void* p, uint32_t data, uint32_t epoch) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(uint64_t(epoch) << 32 | data)
               : "memory");
}
__device__ __forceinline__ void FenceGpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void AddRelaxed(uint32_t* p, uint32_t v) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void StoreReleaseSystem(uint64_t* p, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ uint64_t GlobalTimerNs() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// D[16,8] += A[16,16] B[16,8], bf16 in, float32 out.
__device__ __forceinline__ void Mma16(float (&d)[4], uint4 a, uint2 b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}
// Four 8x8 bf16 matrices; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ uint4 LoadMatrix4(uint32_t address) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ uint4 LoadMatrix4Transposed(uint32_t address) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
// An 8x8 bf16 matrix, of which lane i holds two neighbours of row i / 4, becomes its transpose.
__device__ __forceinline__ uint32_t TransposeMatrix(uint32_t pair) {
  uint32_t v;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(v) : "r"(pair));
  return v;
}
// The products of two pairs of bf16, each rounded once.
__device__ __forceinline__ uint32_t MultiplyBf16(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
// 2^x in the hardware's precision; subnormal results are zero.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The same value, of which the compiler knows nothing: what is worked out from it stays behind
// this.
__device__ __forceinline__ int Opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace baton::cuda
