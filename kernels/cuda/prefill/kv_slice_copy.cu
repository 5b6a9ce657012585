#include "kernels/cuda/prefill/kv_slice_copy.h"

#include <algorithm>

#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {
namespace {

constexpr int kThreads = 512;
constexpr int kUnroll = 4;  // Loads of 16 bytes in flight a thread.
constexpr uint64_t kUnitBytes = uint64_t{kThreads} * kUnroll * 16;
// Enough to fill NVLink (16 * 32 KiB in flight), and few multiprocessors taken from compute.
constexpr int kMaxBlocks = 16;

__device__ unsigned long long Nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void __launch_bounds__(kThreads) SliceCopy(SliceCopyCall call, int units_a_slice) {
  if (threadIdx.x == 0) atomicMin(&call.span->begin_ns, Nanoseconds());
  const int units = call.count * units_a_slice;
  for (int unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const PagePair page = call.pages[unit / units_a_slice];
    const uint64_t begin = uint64_t(unit % units_a_slice) * kUnitBytes;
    const std::byte* const from = call.from + page.from * call.from_page_bytes + begin;
    std::byte* const to = call.to + page.to * call.to_page_bytes + begin;
    const uint64_t bytes = min(kUnitBytes, call.slice_bytes - begin);
    int4 held[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const uint64_t at = (uint64_t(i) * kThreads + threadIdx.x) * 16;
      if (at < bytes) held[i] = *reinterpret_cast<const int4*>(from + at);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const uint64_t at = (uint64_t(i) * kThreads + threadIdx.x) * 16;
      if (at < bytes) *reinterpret_cast<int4*>(to + at) = held[i];
    }
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(&call.span->end_ns, Nanoseconds());
}

}  // namespace

absl::Status LaunchSliceCopy(const SliceCopyCall& call, cudaStream_t stream) {
  if (call.count == 0) return absl::OkStatus();
  const int units_a_slice = static_cast<int>((call.slice_bytes + kUnitBytes - 1) / kUnitBytes);
  const int blocks = std::min(kMaxBlocks, call.count * units_a_slice);
  SliceCopy<<<blocks, kThreads, 0, stream>>>(call, units_a_slice);
  BATON_PREFILL_LAUNCHED("SliceCopy");
  return absl::OkStatus();
}

}  // namespace baton::prefill
