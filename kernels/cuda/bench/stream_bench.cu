#include "kernels/cuda/bench/stream_bench.h"

#include <algorithm>

#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/decode/ptx_sm90.cuh"

namespace baton::cuda {
namespace {

constexpr int kChunk = 16384, kSlots = 12, kWarps = 8;

__global__ void __launch_bounds__(288, 1)
    StreamRing(const char* base, unsigned long long chunks, int in_flight, unsigned* sink) {
  extern __shared__ __align__(1024) char ring[];
  __shared__ __align__(8) unsigned long long full[kSlots], empty[kSlots];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      BarrierInit(SmemAddress(&full[i]), 1);
      BarrierInit(SmemAddress(&empty[i]), kWarps);
    }
    BarrierInitFence();
  }
  __syncthreads();
  int slot = 0, parity = 0;
  if (warp == kWarps) {
    if (lane != 0) return;
    int oldest = 0, oldest_parity = 0, flight = 0;
    for (unsigned long long c = blockIdx.x; c < chunks; c += gridDim.x) {
      while (!BarrierTryWait(SmemAddress(&empty[slot]), parity ^ 1)) {
      }
      if (flight == in_flight) {
        while (!BarrierTryWait(SmemAddress(&full[oldest]), oldest_parity)) {
        }
        if (++oldest == kSlots) oldest = 0, oldest_parity ^= 1;
      } else {
        ++flight;
      }
      BarrierExpect(SmemAddress(&full[slot]), kChunk);
      BulkLoad(SmemAddress(ring + slot * kChunk), base + c * kChunk, kChunk,
               SmemAddress(&full[slot]));
      if (++slot == kSlots) slot = 0, parity ^= 1;
    }
    return;
  }
  unsigned sum = 0;
  for (unsigned long long c = blockIdx.x; c < chunks; c += gridDim.x) {
    while (!BarrierTryWait(SmemAddress(&full[slot]), parity)) {
    }
    const uint4* data = reinterpret_cast<const uint4*>(ring + slot * kChunk);
    for (int i = threadIdx.x; i < kChunk / 16; i += kWarps * 32)
      sum ^= data[i].x ^ data[i].y ^ data[i].z ^ data[i].w;
    __syncwarp();
    if (lane == 0) BarrierArrive(SmemAddress(&empty[slot]));
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }
  if (sum == 0x12345) *sink = sum;
}

// What the kernel reads, and when it began and ended.
struct StreamRun {
  ~StreamRun() {
    if (begin != nullptr) cudaEventDestroy(begin);
    if (end != nullptr) cudaEventDestroy(end);
    cudaFree(memory);
    cudaFree(sink);
  }
  absl::Status Prepare(unsigned long long bytes) {
    BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, bytes));
    BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&sink, sizeof(unsigned)));
    BATON_RETURN_IF_CUDA_ERROR(cudaMemset(memory, 0x5a, bytes));
    BATON_RETURN_IF_CUDA_ERROR(cudaEventCreate(&begin));
    BATON_RETURN_IF_CUDA_ERROR(cudaEventCreate(&end));
    return absl::OkStatus();
  }

  char* memory = nullptr;
  unsigned* sink = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

}  // namespace

absl::StatusOr<double> MeasureStreamBandwidth(unsigned long long bytes, int runs,
                                              int in_flight_chunks) {
  int device = 0, sms = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  BATON_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      StreamRing, cudaFuncAttributeMaxDynamicSharedMemorySize, kSlots * kChunk));
  StreamRun stream;
  BATON_RETURN_IF_ERROR(stream.Prepare(bytes));
  float best = 1e30f;
  for (int i = 0; i < runs + 1; ++i) {
    BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(stream.begin));
    StreamRing<<<sms, 288, kSlots * kChunk>>>(stream.memory, bytes / kChunk, in_flight_chunks,
                                              stream.sink);
    BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
    BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(stream.end));
    BATON_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(stream.end));
    float ms = 0;
    BATON_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&ms, stream.begin, stream.end));
    if (i > 0) best = std::min(best, ms);
  }
  return bytes / kChunk * kChunk / (best * 1e-3);
}

}  // namespace baton::cuda
