#include "kernels/cuda/bench/noise_fill.h"

#include "kernels/cuda/cuda_check.h"

namespace baton::cuda {
namespace {

__global__ void FillKernel(uint32_t* to, uint64_t words) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < words;
       i += uint64_t{gridDim.x} * blockDim.x) {
    uint32_t h = static_cast<uint32_t>(i * 0x9e3779b1u);
    h ^= h >> 15;
    h *= 0x85ebca6bu;
    to[i] = (h & 0x80ff80ffu) | 0x3e803e80u;
  }
}

}  // namespace

absl::Status FillNoise(void* device_memory, uint64_t bytes) {
  FillKernel<<<1056, 256>>>(static_cast<uint32_t*>(device_memory), bytes / 4);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  return absl::OkStatus();
}

}  // namespace baton::cuda
