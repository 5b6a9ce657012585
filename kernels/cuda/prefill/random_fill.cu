#include "kernels/cuda/prefill/random_fill.h"

#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {
namespace {

// The finaliser of SplitMix64.
__device__ __forceinline__ uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__global__ void UniformKernel(__nv_bfloat16* target, int64_t elements, float bound, uint64_t seed) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < elements; i += step) {
    const uint64_t bits = Mix(seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(i));
    const float unit = static_cast<float>(bits >> 40) * 0x1p-24f;
    target[i] = __float2bfloat16_rn((2.0f * unit - 1.0f) * bound);
  }
}

__global__ void ConstantKernel(__nv_bfloat16* target, int64_t elements, float value) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < elements; i += step) {
    target[i] = __float2bfloat16_rn(value);
  }
}

}  // namespace

absl::Status FillUniform(__nv_bfloat16* target, int64_t elements, float bound, uint64_t seed) {
  UniformKernel<<<1056, 256>>>(target, elements, bound, seed);
  BATON_PREFILL_LAUNCHED("UniformKernel");
  BATON_PREFILL_CUDA(cudaDeviceSynchronize());
  return absl::OkStatus();
}

absl::Status FillConstant(__nv_bfloat16* target, int64_t elements, float value) {
  ConstantKernel<<<1056, 256>>>(target, elements, value);
  BATON_PREFILL_LAUNCHED("ConstantKernel");
  BATON_PREFILL_CUDA(cudaDeviceSynchronize());
  return absl::OkStatus();
}

}  // namespace baton::prefill
