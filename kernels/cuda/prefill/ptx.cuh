// Hopper instructions that CUDA C++ has no names for: memory barriers of the bulk copy engine,
// tensor copies, warpgroup control. Device code only. Source of the semantics: PTX ISA 8.0 and
// later.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace baton::prefill {

__device__ __forceinline__ uint32_t SmemAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void BarrierInit(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SmemAddress(barrier)), "r"(arrivals)
               : "memory");
}

// Makes initialised barriers visible to the copy engine; a __syncthreads() must follow.
__device__ __forceinline__ void BarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

__device__ __forceinline__ void BarrierExpectBytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SmemAddress(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void BarrierArrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SmemAddress(barrier)) : "memory");
}

__device__ __forceinline__ bool BarrierTryWait(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(SmemAddress(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// A wait that never ends means a bug or a lost copy: it traps, so that the host sees a launch error
// instead of a hang.
__device__ __forceinline__ void BarrierWait(uint64_t* barrier, uint32_t parity) {
  constexpr uint32_t kMaxTries = 1u << 26;
  uint32_t tries = 0;
  while (!BarrierTryWait(barrier, parity)) {
    if (++tries == kMaxTries) __trap();
  }
}

__device__ __forceinline__ void PrefetchTensorMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}

__device__ __forceinline__ void TensorCopy2d(void* smem, const CUtensorMap* map, int c0, int c1,
                                             uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(SmemAddress(smem)),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(SmemAddress(barrier)), "r"(c0), "r"(c1)
      : "memory");
}

__device__ __forceinline__ void TensorCopy3d(void* smem, const CUtensorMap* map, int c0, int c1,
                                             int c2, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(SmemAddress(smem)),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(SmemAddress(barrier)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

template <int kRegisters>
__device__ __forceinline__ void RegistersIncrease() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void RegistersDecrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

__device__ __forceinline__ void CopyAsync16(void* smem, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(SmemAddress(smem)), "l"(global)
               : "memory");
}

__device__ __forceinline__ void CopyAsyncWaitAll() {
  asm volatile("cp.async.wait_all;\n" ::: "memory");
}

// Two floats to packed bf16, the first in the low half.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ float RoundBf16(float value) {
  return __bfloat162float(__float2bfloat16_rn(value));
}

__device__ __forceinline__ float LowBf16(uint32_t packed) { return __uint_as_float(packed << 16); }
__device__ __forceinline__ float HighBf16(uint32_t packed) {
  return __uint_as_float(packed & 0xffff0000u);
}

// 4x4 transpose of 32-bit words within each group of four lanes: afterwards word i of lane t is
// word t of lane i. All lanes of the warp take part.
__device__ __forceinline__ void QuadTranspose(uint32_t (&words)[4], int lane) {
  const bool odd = (lane & 1) != 0;
  const bool upper = (lane & 2) != 0;
#pragma unroll
  for (int pair = 0; pair < 4; pair += 2) {
    const uint32_t sent = odd ? words[pair] : words[pair + 1];
    const uint32_t received = __shfl_xor_sync(0xffffffffu, sent, 1);
    if (odd) {
      words[pair] = received;
    } else {
      words[pair + 1] = received;
    }
  }
#pragma unroll
  for (int first = 0; first < 2; ++first) {
    const uint32_t sent = upper ? words[first] : words[first + 2];
    const uint32_t received = __shfl_xor_sync(0xffffffffu, sent, 2);
    if (upper) {
      words[first] = received;
    } else {
      words[first + 2] = received;
    }
  }
}

}  // namespace baton::prefill
