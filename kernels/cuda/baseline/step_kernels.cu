#include "kernels/cuda/baseline/step_kernels.h"

#include "common/check.h"
#include "kernels/cuda/baseline/split_attention.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/kv/kv_layout.h"

namespace baton::cuda {
namespace {

constexpr int kDim = kBaselineHeadDim;
constexpr int kPairs = kDim / 2;
constexpr int kThreads = 256;

__device__ __forceinline__ float2 Floats(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

__device__ __forceinline__ uint32_t Packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// One block a row and 4 heads: a thread a pair.
__global__ void __launch_bounds__(kThreads) RotateAppendKernel(const RotateAppendCall call) {
  const int row = blockIdx.y;
  const int head = blockIdx.x * (kThreads / kPairs) + threadIdx.x / kPairs;
  const int pair = threadIdx.x % kPairs;
  if (head >= call.query_heads + 2 * call.kv_heads) return;
  uint32_t* at =
      reinterpret_cast<uint32_t*>(call.qkv + row * call.pitch + int64_t{head} * kDim) + pair;
  uint32_t value = *at;
  const bool is_value = head >= call.query_heads + call.kv_heads;
  if (call.rope && !is_value) {
    const float2 x = Floats(value), turn = call.rotary[row * kPairs + pair];
    value = Packed(x.x * turn.x - x.y * turn.y, x.y * turn.x + x.x * turn.y);
  }
  if (head < call.query_heads) {
    *at = value;
    return;
  }
  const int position = call.positions[row], token = position % kPageTokens;
  const int page = position / kPageTokens;
  const int slot = call.ring != nullptr ? page % call.ring[row] : page;
  char* tile = call.base + call.pages[int64_t{row} * call.page_stride + slot] * call.page_bytes +
               int64_t{head - call.query_heads} * kPageTokens * kDim * 2;
  *reinterpret_cast<uint32_t*>(tile + token * (2 * kDim) + (((pair >> 2) ^ (token & 7)) << 4) +
                               (pair & 3) * 4) = value;
}

__global__ void __launch_bounds__(kThreads) GateKernel(const GateCall call) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= call.rows * call.width) return;
  const int row = i / call.width, k = i % call.width;
  const __nv_bfloat16* in = call.in + int64_t{row} * 2 * call.width + (k / 8) * 16 + k % 8;
  const float gate = __bfloat162float(in[0]), up = __bfloat162float(in[8]);
  const float active = __bfloat162float(__float2bfloat16(gate / (1.0f + expf(-gate))));
  call.out[i] = __float2bfloat16(active * up);
}

__global__ void AdvanceKernel(const AdvanceCall call) {
  const int row = threadIdx.x;
  const uint32_t step = *call.step;
  __syncthreads();
  if (row < call.rows) {
    const SampledToken sampled = call.sampled[row];
    call.token_ids[row] = sampled.token;
    call.positions[row] += 1;
    call.sample_rows[row].position += 1;
    if (step <= call.max_steps) call.history[int64_t{step - 1} * call.rows + row] = sampled;
  }
  if (row == 0) *call.step = step + 1;
}

}  // namespace

absl::Status LaunchRotateAppend(const RotateAppendCall& call, cudaStream_t stream) {
  const int heads = call.query_heads + 2 * call.kv_heads, each = kThreads / kPairs;
  RotateAppendKernel<<<dim3((heads + each - 1) / each, call.rows), kThreads, 0, stream>>>(call);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status LaunchGate(const GateCall& call, cudaStream_t stream) {
  GateKernel<<<(call.rows * call.width + kThreads - 1) / kThreads, kThreads, 0, stream>>>(call);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status LaunchAdvance(const AdvanceCall& call, cudaStream_t stream) {
  AdvanceKernel<<<1, 32, 0, stream>>>(call);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

}  // namespace baton::cuda
