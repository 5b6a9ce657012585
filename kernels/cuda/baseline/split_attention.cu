#include "kernels/cuda/baseline/split_attention.h"

#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/kv/kv_layout.h"

namespace baton::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kGroup = kBaselineMaxGroup;
constexpr int kDim = kBaselineHeadDim;
constexpr int kKeys = 4;  // A warp's keys at a time: 4 keys x 8 heads = one score a lane.
constexpr float kNothing = -1e30f;
constexpr float kLog2e = 1.4426950408889634f;

// The lane's four dimensions of key or value `token` in a tile.
__device__ __forceinline__ float4 LoadFour(const char* tile, int token, int lane) {
  const uint2 v = *reinterpret_cast<const uint2*>(
      tile + token * (2 * kDim) + (((lane >> 1) ^ (token & 7)) << 4) + (lane & 1) * 8);
  return make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u),
                     __uint_as_float(v.y << 16), __uint_as_float(v.y & 0xffff0000u));
}

// values[i] summed over the warp ends up in lane i: each turn halves what a lane still holds.
template <int kHalf = 16>
__device__ __forceinline__ float TransposeSum(float (&values)[32], int lane) {
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const bool upper = (lane & kHalf) != 0;
    const float send = upper ? values[i] : values[i + kHalf];
    const float keep = upper ? values[i + kHalf] : values[i];
    values[i] = keep + __shfl_xor_sync(~0u, send, kHalf);
  }
  if constexpr (kHalf > 1) return TransposeSum<kHalf / 2>(values, lane);
  return values[0];
}

struct Range {
  int low, end, first_page, page_count;
};

__device__ __forceinline__ Range KeysOf(const SplitAttentionCall& call, int row) {
  Range range;
  range.end = call.positions[row] + 1;
  range.low = call.window_keys > 0 ? max(0, range.end - call.window_keys) : 0;
  range.first_page = range.low / kPageTokens;
  range.page_count = (range.end - 1) / kPageTokens - range.first_page + 1;
  return range;
}

struct WarpState {
  float4 o[kGroup];
  float peak, sum;  // Of head lane % 8.

  __device__ void AddKeys(const float4 (&q)[kGroup], const char* tile, int64_t value_offset,
                          int token, int live, int lane) {
    float4 v[kKeys];
    float dots[32];
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const float4 k = LoadFour(tile, token + i, lane);
      v[i] = LoadFour(tile + value_offset, token + i, lane);
#pragma unroll
      for (int h = 0; h < kGroup; ++h) {
        dots[i * kGroup + h] = q[h].x * k.x + q[h].y * k.y + q[h].z * k.z + q[h].w * k.w;
      }
    }
    float score = TransposeSum(dots, lane);
    if (!(live >> (lane / kGroup) & 1)) score = kNothing;
    float top = fmaxf(peak, score);
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 8));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 16));
    const float p = score > kNothing ? exp2f(score - top) : 0.0f;
    const float shrink = exp2f(peak - top);
    float added = p;
    added += __shfl_xor_sync(~0u, added, 8);
    added += __shfl_xor_sync(~0u, added, 16);
    sum = sum * shrink + added;
    peak = top;
#pragma unroll
    for (int h = 0; h < kGroup; ++h) {
      const float factor = __shfl_sync(~0u, shrink, h);
      float4 total =
          make_float4(o[h].x * factor, o[h].y * factor, o[h].z * factor, o[h].w * factor);
#pragma unroll
      for (int i = 0; i < kKeys; ++i) {
        const float weight = __shfl_sync(~0u, p, i * kGroup + h);
        if (!(live >> i & 1)) continue;  // What nobody wrote may be NaN.
        total.x += weight * v[i].x;
        total.y += weight * v[i].y;
        total.z += weight * v[i].z;
        total.w += weight * v[i].w;
      }
      o[h] = total;
    }
  }
};

// Adds up the block's warps, in order, and stores them as the split's partial result.
__device__ void StoreSplit(const SplitAttentionCall& call, const WarpState& state, int64_t split,
                           int warp, int lane) {
  __shared__ float scratch[kWarps][kGroup][kDim];
  __shared__ float ml[kWarps][kGroup][2];
#pragma unroll
  for (int h = 0; h < kGroup; ++h)
    *reinterpret_cast<float4*>(&scratch[warp][h][4 * lane]) = state.o[h];
  if (lane < kGroup) {
    ml[warp][lane][0] = state.peak;
    ml[warp][lane][1] = state.sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kGroup * kDim; i += kWarps * 32) {
    const int h = i / kDim;
    float top = kNothing, total = 0.0f, sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, ml[w][h][0]);
    for (int w = 0; w < kWarps; ++w) {
      const float factor = exp2f(ml[w][h][0] - top);
      total += factor * scratch[w][h][i % kDim];
      sum += factor * ml[w][h][1];
    }
    call.partial_o[split * kGroup * kDim + i] = total;
    if (i % kDim == 0) {
      call.partial_ml[(split * kGroup + h) * 2] = top;
      call.partial_ml[(split * kGroup + h) * 2 + 1] = sum;
    }
  }
}

__global__ void __launch_bounds__(kWarps * 32) SplitKernel(const SplitAttentionCall call) {
  const int split = blockIdx.x, head = blockIdx.y, row = blockIdx.z;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const Range range = KeysOf(call, row);
  const int begin = range.first_page + split * call.pages_per_split;
  const int end = min(begin + call.pages_per_split, range.first_page + range.page_count);
  if (begin >= end) return;
  const int group = call.query_heads / call.kv_heads;
  const float scale = rsqrtf(static_cast<float>(kDim)) * kLog2e;
  float4 q[kGroup];
#pragma unroll
  for (int h = 0; h < kGroup; ++h) {
    q[h] = make_float4(0, 0, 0, 0);
    if (h >= group) continue;
    const uint2 v = *reinterpret_cast<const uint2*>(call.queries + row * call.query_pitch +
                                                    (head * group + h) * kDim + 4 * lane);
    q[h] =
        make_float4(__uint_as_float(v.x << 16) * scale, __uint_as_float(v.x & 0xffff0000u) * scale,
                    __uint_as_float(v.y << 16) * scale, __uint_as_float(v.y & 0xffff0000u) * scale);
  }
  WarpState state{};
  state.peak = kNothing;
  const int64_t tile_bytes = int64_t{kPageTokens} * kDim * 2;
  for (int page = begin; page < end; ++page) {
    const int slot = call.ring != nullptr ? page % call.ring[row] : page;
    const char* tile = call.base +
                       call.pages[int64_t{row} * call.page_stride + slot] * call.page_bytes +
                       head * tile_bytes;
    for (int token = warp * kKeys; token < kPageTokens; token += kWarps * kKeys) {
      int live = 0;
#pragma unroll
      for (int i = 0; i < kKeys; ++i) {
        const int key = page * kPageTokens + token + i;
        live |= (key >= range.low && key < range.end ? 1 : 0) << i;
      }
      if (live != 0) state.AddKeys(q, tile, call.kv_heads * tile_bytes, token, live, lane);
    }
  }
  StoreSplit(call, state, (int64_t{row} * call.kv_heads + head) * call.max_splits + split, warp,
             lane);
}

__global__ void __launch_bounds__(kDim) MergeKernel(const SplitAttentionCall call) {
  const int query_head = blockIdx.x, row = blockIdx.y, d = threadIdx.x;
  const int group = call.query_heads / call.kv_heads;
  const int head = query_head / group, h = query_head % group;
  const Range range = KeysOf(call, row);
  const int splits = (range.page_count + call.pages_per_split - 1) / call.pages_per_split;
  const int64_t first = (int64_t{row} * call.kv_heads + head) * call.max_splits;
  float top = kNothing;
  for (int s = 0; s < splits; ++s)
    top = fmaxf(top, call.partial_ml[((first + s) * kGroup + h) * 2]);
  float total = 0.0f, sum = 0.0f;
#pragma unroll 4
  for (int s = 0; s < splits; ++s) {
    const int64_t at = (first + s) * kGroup + h;
    const float factor = exp2f(call.partial_ml[at * 2] - top);
    sum += factor * call.partial_ml[at * 2 + 1];
    total += factor * call.partial_o[at * kDim + d];
  }
  call.out[(int64_t{row} * call.query_heads + query_head) * kDim + d] =
      __float2bfloat16(total / sum);
}

}  // namespace

absl::Status LaunchSplitAttention(const SplitAttentionCall& call, cudaStream_t stream) {
  SplitKernel<<<dim3(call.max_splits, call.kv_heads, call.rows), kWarps * 32, 0, stream>>>(call);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  MergeKernel<<<dim3(call.query_heads, call.rows), kDim, 0, stream>>>(call);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

}  // namespace baton::cuda
