#include "kernels/cuda/prefill/sampling.h"

#include <cmath>

#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {
namespace {

constexpr int kThreads = 256;

// The words of common/philox.h's SamplingWords: Philox4x32-10 with counter {group, position, 0, 0}.
__device__ __forceinline__ uint4 SamplingWords(uint64_t seed, int position, uint32_t group) {
  uint4 counter = make_uint4(group, static_cast<uint32_t>(position), 0u, 0u);
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, counter.x);
    const uint32_t low0 = 0xD2511F53u * counter.x;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, counter.z);
    const uint32_t low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

__device__ __forceinline__ float Noise(const SampleRow& row, int token) {
  const uint4 words = SamplingWords(row.seed, row.position, static_cast<uint32_t>(token) / 4);
  const int lane = token & 3;
  const uint32_t bits = lane == 0 ? words.x : lane == 1 ? words.y : lane == 2 ? words.z : words.w;
  const float uniform = (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f;
  return -logf(-logf(uniform));
}

// Keeps the better candidate (ties to the lowest id) and merges the log-sum-exp parts.
__device__ __forceinline__ void Merge(SamplePartial& into, const SamplePartial& other) {
  if (other.best > into.best || (other.best == into.best && other.token < into.token)) {
    into.best = other.best;
    into.token = other.token;
    into.logit = other.logit;
  }
  const float max = fmaxf(into.max, other.max);
  if (max > -INFINITY) {
    into.sum = into.sum * expf(into.max - max) + other.sum * expf(other.max - max);
  }
  into.max = max;
}

__device__ __forceinline__ SamplePartial Nothing() {
  SamplePartial partial;
  partial.best = -INFINITY;
  partial.token = 0x7fffffff;
  partial.logit = -INFINITY;
  partial.max = -INFINITY;
  partial.sum = 0.0f;
  return partial;
}

// Merges the block's partials in thread order.
__device__ __forceinline__ SamplePartial BlockMerge(const SamplePartial& mine) {
  __shared__ SamplePartial shared[kThreads];
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (int stride = kThreads / 2; stride > 0; stride >>= 1) {
    if (static_cast<int>(threadIdx.x) < stride) {
      Merge(shared[threadIdx.x], shared[threadIdx.x + stride]);
    }
    __syncthreads();
  }
  return shared[0];
}

__global__ void __launch_bounds__(kThreads) SamplePartialKernel(const SampleCall call) {
  const int row_index = blockIdx.y;
  const SampleRow row = call.row_params[row_index];
  float* logits = call.logits + int64_t{row_index} * call.vocab;
  SamplePartial mine = Nothing();
  for (int token = blockIdx.x * kThreads + threadIdx.x; token < call.vocab;
       token += kSamplePartials * kThreads) {
    const float logit = logits[token] * call.logit_scale;
    logits[token] = logit;
    SamplePartial one;
    one.best = row.temperature > 0.0f ? logit / row.temperature + Noise(row, token) : logit;
    one.token = token;
    one.logit = logit;
    one.max = logit;
    one.sum = 1.0f;
    Merge(mine, one);
  }
  const SamplePartial merged = BlockMerge(mine);
  if (threadIdx.x == 0) call.partials[row_index * kSamplePartials + blockIdx.x] = merged;
}

__global__ void __launch_bounds__(kThreads) SampleMergeKernel(const SampleCall call) {
  const int row = blockIdx.x;
  const SamplePartial merged =
      BlockMerge(threadIdx.x < kSamplePartials ? call.partials[row * kSamplePartials + threadIdx.x]
                                               : Nothing());
  if (threadIdx.x == 0) {
    call.sampled[row].token = merged.token;
    call.sampled[row].logprob = merged.logit - merged.max - logf(merged.sum);
  }
}

}  // namespace

absl::Status LaunchSample(const SampleCall& call, cudaStream_t stream) {
  if (call.rows == 0) return absl::OkStatus();
  SamplePartialKernel<<<dim3(kSamplePartials, call.rows), kThreads, 0, stream>>>(call);
  BATON_PREFILL_LAUNCHED("SamplePartialKernel");
  SampleMergeKernel<<<call.rows, kThreads, 0, stream>>>(call);
  BATON_PREFILL_LAUNCHED("SampleMergeKernel");
  return absl::OkStatus();
}

}  // namespace baton::prefill
