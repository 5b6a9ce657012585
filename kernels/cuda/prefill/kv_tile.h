// How a K or V tile [64 tokens, head_dim] of bf16 lies in device pages (KvLayout::swizzled): token
// t is row t, and its 16-byte unit u is stored at u ^ (t & 7), or u ^ (t & 3) where a row has four
// units only.
#pragma once

#include <cuda_runtime.h>

namespace baton::prefill {

__host__ __device__ constexpr int SwizzledUnit(int unit, int token, int units) {
  return unit ^ (token & (units < 8 ? units - 1 : 7));
}

template <int kDim>
__host__ __device__ constexpr int SwizzledUnit(int unit, int token) {
  return SwizzledUnit(unit, token, kDim / 8);
}

}  // namespace baton::prefill
