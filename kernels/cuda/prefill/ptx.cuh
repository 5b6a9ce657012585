// Hopper instructions of the prefill kernels alone: tensor copies, and waits for them. Device code
// only. Source of the semantics: PTX ISA 8.0 and later.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/ptx.cuh"

namespace baton::prefill {

using cuda::AsyncCopy16;
using cuda::AsyncCopyWait;
using cuda::BarrierArrive;
using cuda::BarrierExpect;
using cuda::BarrierInit;
using cuda::HighFloat;
using cuda::LowerRegisters;
using cuda::LowFloat;
using cuda::PackBf16;
using cuda::RaiseRegisters;
using cuda::SmemAddress;

// Makes initialised barriers visible to the copy engine; a __syncthreads() must follow.
__device__ __forceinline__ void PublishBarriers() {
  cuda::BarrierInitFence();
  cuda::ProxyFence();
}

// A wait that never ends means a bug or a lost copy: it traps, so that the host sees a launch error
// instead of a hang.
__device__ __forceinline__ void BarrierWait(uint64_t* barrier, uint32_t parity) {
  constexpr uint32_t kMaxTries = 1u << 26;
  uint32_t tries = 0;
  while (!cuda::BarrierTryWait(SmemAddress(barrier), parity)) {
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

__device__ __forceinline__ float RoundBf16(float value) {
  return __bfloat162float(__float2bfloat16_rn(value));
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
