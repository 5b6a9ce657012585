#include "kernels/cuda/baseline/expert_products.h"

#include <algorithm>

#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/expert_key.cuh"

namespace baton::cuda {
namespace {

constexpr int kChooseThreads = 1024;  // A warp a row.
constexpr int kExpertsPerLane = kBaselineMaxExperts / 32;
constexpr int kProductWarps = 8;

__device__ __forceinline__ float RoundBf16(float value) {
  return __bfloat162float(__float2bfloat16(value));
}

// Lane i < k holds the i-th chosen logit.
__device__ __forceinline__ float SlotWeight(const ChooseExpertsCall& call, float logit, int lane) {
  const int k = call.experts_per_token;
  if (call.softmax) {
    float peak = lane < k ? logit : -INFINITY;
    for (int offset = 16; offset > 0; offset >>= 1)
      peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, offset));
    const float e = lane < k ? expf(logit - peak) : 0.0f;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += __shfl_sync(~0u, e, i);
    return RoundBf16(e / sum);
  }
  float weight = RoundBf16(1.0f / (1.0f + expf(-logit)));
  if (!call.norm_topk) return weight;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) sum += __shfl_sync(~0u, weight, i);
  return RoundBf16(weight / RoundBf16(sum));
}

// The row's experts and weights, into shared slot arrays.
__device__ void ChooseRow(const ChooseExpertsCall& call, int row, int lane, int* slot_expert) {
  const uint16_t* logits = reinterpret_cast<const uint16_t*>(call.logits) + row * call.pitch;
  const uint32_t step = call.forced_experts > 0 ? *call.step : 0;
  const ExpertDraw draw{step, call.layer, row, call.expert_count, call.forced_experts};
  uint32_t key[kExpertsPerLane];
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane + 32 * i;
    key[i] = 0;
    if (expert >= call.expert_count) continue;
    key[i] = draw.pool > 0 ? DrawnExpertKey(draw, expert) : ExpertKey(logits[expert], expert);
  }
  int chosen = 0x7fffffff;
  for (int k = 0; k < call.experts_per_token; ++k) {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) best = max(best, key[i]);
    best = __reduce_max_sync(~0u, best);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (key[i] == best) key[i] = 0;
    }
    if (lane == k) chosen = ExpertOfKey(best);
  }
  const bool used = lane < call.experts_per_token;
  const float logit = used ? __uint_as_float(uint32_t{logits[chosen]} << 16) : 0.0f;
  const float weight = SlotWeight(call, logit, lane);
  int rank = 0;
  for (int k = 0; k < call.experts_per_token; ++k)
    rank += __shfl_sync(~0u, chosen, k) < chosen ? 1 : 0;
  if (!used) return;
  const int slot = row * call.experts_per_token + rank;
  slot_expert[slot] = chosen;
  call.lists.slot_weights[slot] = weight;
}

// One warp: the active experts by id and where each one's slots begin.
__device__ void ListActive(const ChooseExpertsCall& call, const int* count, int* begin, int lane) {
  int active = 0, at = 0;
  for (int first = 0; first < call.expert_count; first += 32) {
    const int expert = first + lane;
    const int mine = expert < call.expert_count ? count[expert] : 0;
    int upto = mine;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
      const int other = __shfl_up_sync(~0u, upto, offset);
      if (lane >= offset) upto += other;
    }
    const uint32_t ballot = __ballot_sync(~0u, mine > 0);
    if (mine > 0) {
      const int index = active + __popc(ballot & ((1u << lane) - 1));
      begin[expert] = at + upto - mine;
      call.lists.active_expert[index] = expert;
      call.lists.first_slot[index] = begin[expert];
    }
    active += __popc(ballot);
    at += __shfl_sync(~0u, upto, 31);
  }
  if (lane != 0) return;
  call.lists.first_slot[active] = at;
  *call.lists.active_count = active;
  *call.lists.distinct += active;
}

__global__ void __launch_bounds__(kChooseThreads) ChooseKernel(const ChooseExpertsCall call) {
  __shared__ int slot_expert[kBaselineMaxSlots];
  __shared__ int count[kBaselineMaxExperts], begin[kBaselineMaxExperts];
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int slots = call.rows * call.experts_per_token;
  if (tid < kBaselineMaxExperts) count[tid] = 0;
  if (warp < call.rows) ChooseRow(call, warp, lane, slot_expert);
  __syncthreads();
  if (tid < slots) atomicAdd(&count[slot_expert[tid]], 1);
  __syncthreads();
  if (warp == 0) ListActive(call, count, begin, lane);
  __syncthreads();
  if (tid < call.expert_count && count[tid] > 0) {
    int at = begin[tid];
    for (int s = 0; s < slots; ++s) {
      if (slot_expert[s] == tid) call.lists.slots[at++] = s;
    }
  }
}

__device__ __forceinline__ void MultiplyEight(const uint4& w, const uint4& x, float& sum) {
  const uint32_t a[4] = {w.x, w.y, w.z, w.w}, b[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(a[i] << 16), __uint_as_float(b[i] << 16), sum);
    sum = fmaf(__uint_as_float(a[i] & 0xffff0000u), __uint_as_float(b[i] & 0xffff0000u), sum);
  }
}

// sum[w][r] = weights[w] . x[r] over `units` of 8 values; every lane gets it.
template <int kWeights, int kRows>
__device__ __forceinline__ void DotRows(const uint4* const (&weights)[kWeights],
                                        const uint4* const (&x)[kRows], int units, int lane,
                                        float (&sum)[kWeights][kRows]) {
#pragma unroll
  for (int w = 0; w < kWeights; ++w)
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[w][r] = 0.0f;
  constexpr int kAhead = kRows <= 2 ? (kWeights == 4 ? 3 : 4) : 4 / kWeights;
  for (int first = lane; first < units; first += 32 * kAhead) {
    uint4 loaded[kAhead][kWeights];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
#pragma unroll
      for (int w = 0; w < kWeights; ++w)
        loaded[i][w] =
            first + 32 * i < units ? __ldg(weights[w] + first + 32 * i) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + 32 * i >= units) continue;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const uint4 value = x[r][first + 32 * i];
#pragma unroll
        for (int w = 0; w < kWeights; ++w) MultiplyEight(loaded[i][w], value, sum[w][r]);
      }
    }
  }
#pragma unroll
  for (int w = 0; w < kWeights; ++w)
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int offset = 16; offset > 0; offset >>= 1)
        sum[w][r] += __shfl_xor_sync(~0u, sum[w][r], offset);
}

// The product's rows that one warp owns times up to kRows slots of the expert.
template <bool kGateUp, int kRows>
__device__ void MultiplySlots(const ExpertProductCall& call, const uint4* weights, int unit,
                              const int* slots, int count, int lane) {
  constexpr int kWeights = kGateUp ? 2 : 4;
  const int units = call.in_width / 8;
  const uint4* from[kWeights];
#pragma unroll
  for (int w = 0; w < kWeights; ++w) {
    const int64_t row = kGateUp ? (unit / 8) * 16 + unit % 8 + 8 * w : unit * 4 + w;
    from[w] = weights + row * units;
  }
  const uint4* x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int slot = slots[min(r, count - 1)];
    const int64_t row = kGateUp ? slot / call.experts_per_token : slot;
    x[r] = reinterpret_cast<const uint4*>(call.in + row * call.in_width);
  }
  float sum[kWeights][kRows];
  DotRows(from, x, units, lane, sum);
  if (lane != 0) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= count) continue;
    __nv_bfloat16* to = call.out + int64_t{slots[r]} * call.out_width;
    if (kGateUp) {
      const float gate = RoundBf16(sum[0][r]), up = RoundBf16(sum[kWeights - 1][r]);
      to[unit] = __float2bfloat16(RoundBf16(gate / (1.0f + expf(-gate))) * up);
    } else {
#pragma unroll
      for (int w = 0; w < kWeights; ++w) to[unit * 4 + w] = __float2bfloat16(sum[w][r]);
    }
  }
}

template <bool kGateUp>
__global__ void __launch_bounds__(kProductWarps * 32, 3)
    ProductKernel(const ExpertProductCall call) {
  const int index = blockIdx.y, lane = threadIdx.x & 31;
  if (index >= *call.lists.active_count) return;
  const int unit = blockIdx.x * kProductWarps + (threadIdx.x >> 5);
  if (unit >= (kGateUp ? call.out_width : call.out_width / 4)) return;
  const int64_t rows = kGateUp ? 2 * call.out_width : call.out_width;
  const uint4* weights = reinterpret_cast<const uint4*>(
      call.weights + call.lists.active_expert[index] * rows * call.in_width);
  const int begin = call.lists.first_slot[index], end = call.lists.first_slot[index + 1];
  for (int first = begin; first < end; first += 4) {
    const int* slots = call.lists.slots + first;
    const int count = min(4, end - first);
    if (count == 1) {
      MultiplySlots<kGateUp, 1>(call, weights, unit, slots, count, lane);
    } else if (count == 2) {
      MultiplySlots<kGateUp, 2>(call, weights, unit, slots, count, lane);
    } else {
      MultiplySlots<kGateUp, 4>(call, weights, unit, slots, count, lane);
    }
  }
}

template <bool kGateUp>
absl::Status LaunchProduct(const ExpertProductCall& call, cudaStream_t stream) {
  const int units = kGateUp ? call.out_width : call.out_width / 4;
  const dim3 grid((units + kProductWarps - 1) / kProductWarps, call.most_active);
  ProductKernel<kGateUp><<<grid, kProductWarps * 32, 0, stream>>>(call);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchChooseExperts(const ChooseExpertsCall& call, cudaStream_t stream) {
  BATON_CHECK(call.rows <= kChooseThreads / 32);
  BATON_CHECK(call.expert_count <= kBaselineMaxExperts);
  BATON_CHECK(call.rows * call.experts_per_token <= kBaselineMaxSlots);
  ChooseKernel<<<1, kChooseThreads, 0, stream>>>(call);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status LaunchExpertGateUp(const ExpertProductCall& call, cudaStream_t stream) {
  return LaunchProduct<true>(call, stream);
}

absl::Status LaunchExpertDown(const ExpertProductCall& call, cudaStream_t stream) {
  return LaunchProduct<false>(call, stream);
}

}  // namespace baton::cuda
