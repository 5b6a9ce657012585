// The norm, fused into the load of x: every worker normalises all of x for itself.
#pragma once

#include "kernels/cuda/decode/mma_group.cuh"

namespace baton::cuda {

template <int NT>
inline constexpr bool kNormAhead = NT <= 2;

// Starts the copy of a norm's weights to shared memory; LoadNormalised waits for it.
template <int NT>
__device__ void PrefetchNorm(MmaGroup<NT>& c, const uint16_t* weight) {
  for (int i = c.tid * 8; i < c.p.hidden; i += kMmaThreads * 8)
    AsyncCopy16(SmemAddress(c.smem.norm() + i), weight + i);
}

__device__ __forceinline__ float SumOfSquares(uint2 v, float mean) {
  const float a = LowFloat(v.x) - mean, b = HighFloat(v.x) - mean, c = LowFloat(v.y) - mean,
              d = HighFloat(v.y) - mean;
  return a * a + b * b + c * c + d * d;
}

// Adds a row's lanes and warps, in a fixed order. The sums of `of` are free again after the next
// barrier.
template <int NT>
__device__ void SumRows(MmaGroup<NT>& c, float (&sum)[NT], int of) {
  float* const partial = c.smem.norm_partial(of);  // [warp][8 NT]
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    sum[j] += __shfl_xor_sync(~0u, sum[j], 1);
    sum[j] += __shfl_xor_sync(~0u, sum[j], 2);
    if ((c.lane & 3) == 0) partial[(c.warp * NT + j) * 8 + (c.lane >> 2)] = sum[j];
  }
  c.Sync();
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    sum[j] = 0.0f;
#pragma unroll
    for (int w = 0; w < kMmaWarps; ++w) sum[j] += partial[(w * NT + j) * 8 + (c.lane >> 2)];
  }
}

// This lane's two packets of x of each of `count` k-steps from `at`, kStride bytes apart; waits
// until all carry the layer's epoch. What is not live is zero, and not waited for.
template <int NT, int kCount, int kStride>
__device__ void WaitX(MmaGroup<NT>& c, const char* at, int count, bool live, uint2 (&v)[kCount]) {
  ulonglong2 packet[kCount];
  const uint32_t epoch = c.Epoch(c.task().layer);
  c.WaitPackets(c.task().waits[0].counter, [&] {
    bool all = true;
    // Many packets: one k-step's are polled until they are there, then the others are fetched.
    constexpr int kPolled = kCount > 2 ? 1 : kCount;
#pragma unroll
    for (int n = 0; n < kPolled; ++n) packet[n] = LoadRelaxedPair(at + min(n, count - 1) * kStride);
#pragma unroll
    for (int n = 0; n < kPolled; ++n) all &= Has(packet[n], epoch);
    all = __all_sync(~0u, all || !live);
    if (!all || kPolled == kCount) return all;
#pragma unroll
    for (int n = kPolled; n < kCount; ++n)
      packet[n] = LoadRelaxedPair(at + min(n, count - 1) * kStride);
#pragma unroll
    for (int n = kPolled; n < kCount; ++n) all &= Has(packet[n], epoch);
    return all || !live;
  });
#pragma unroll
  for (int n = 0; n < kCount; ++n)
    v[n] = live && n < count ? make_uint2(uint32_t(packet[n].x), uint32_t(packet[n].y))
                             : make_uint2(0, 0);
}

// The norm of one element: as Hugging Face, RMSNorm rounds v * rstd to bf16, then the product with
// the weight; LayerNorm rounds once.
struct NormRow {
  float mean, scale;
  bool layer_norm;
  __device__ float Of(float value, float weight) const {
    const float y = (value - mean) * scale;
    return weight * (layer_norm ? y : RoundBf16(y));
  }
  __device__ uint2 Of(uint2 v, uint32_t w0, uint32_t w1) const {
    return make_uint2(PackBf16(Of(LowFloat(v.x), LowFloat(w0)), Of(HighFloat(v.x), HighFloat(w0))),
                      PackBf16(Of(LowFloat(v.y), LowFloat(w1)), Of(HighFloat(v.y), HighFloat(w1))));
  }
};

// RMSNorm of the only active row: its k-steps are spread over all lanes, so that one round trip
// fetches them. The sum's order is LoadNormalised's: lane group g adds the warp's k-steps g, g + 8,
// then groups, then the four lanes of a group, then warps.
__device__ __forceinline__ void LoadOneRow(MmaGroup<1>& c) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16, group = c.lane >> 2, t = c.lane & 3;
  const int row = __ffs(c.misc.active_rows) - 1;
  const int first = c.warp + group * kMmaWarps;
  const int count = max(0, (steps - first + 8 * kMmaWarps - 1) / (8 * kMmaWarps));  // 0, 1 or 2.
  constexpr int kStride = 8 * kMmaWarps * 512;
  const uint32_t place = (row * 4 + t) * 8;
  uint2 v[2];
  const char* x = p.x + c.task().buffer_epoch * p.x_copy_bytes + 2 * place;
  if (count > 0) x += 2 * first * 256;  // A lane group without k-steps reads the first one's.
  WaitX<1, 2, kStride>(c, x, max(1, count), count > 0, v);
  float sum = SumOfSquares(v[0], 0.0f) + SumOfSquares(v[1], 0.0f);
#pragma unroll
  for (int offset = 4; offset <= 16; offset <<= 1) sum += __shfl_xor_sync(~0u, sum, offset);
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (c.lane == 0) c.smem.norm_partial(0)[c.warp * 8 + row] = sum;
  AsyncCopyWait();
  c.Sync();
  float all = 0.0f;
#pragma unroll
  for (int w = 0; w < kMmaWarps; ++w) all += c.smem.norm_partial(0)[w * 8 + row];
  const NormRow norm{0.0f, rsqrtf(all * (1.0f / static_cast<float>(p.hidden)) + p.norm_epsilon),
                     false};
  const uint32_t* weight = reinterpret_cast<const uint32_t*>(c.smem.norm()) + t;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    if (n >= count) continue;
    const int step = first + n * 8 * kMmaWarps;
    *reinterpret_cast<uint2*>(c.smem.xs() + step * 256 + place) =
        norm.Of(v[n], weight[step * 8], weight[step * 8 + 4]);
  }
}

// x of the task's copy, normalised with `weight`, into xs. With more than one row tile the counter
// has been waited for: polling that much by packets would take the experts' bandwidth.
template <int NT>
__device__ void LoadRows(MmaGroup<NT>& c, const uint16_t* this_weight) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16;
  const char* x = p.x + c.task().buffer_epoch * p.x_copy_bytes + (c.warp * 32 + c.lane) * 16;
  char* xs = c.smem.xs() + (c.warp * 32 + c.lane) * 8;
  const bool layer_norm = p.norm_is_layer_norm;
  const int count = (steps - c.warp + kMmaWarps - 1) / kMmaWarps;
  constexpr int kBlock = 8;
  float sum[NT], mean[NT];
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    sum[j] = mean[j] = 0.0f;
    const uint32_t row = j * steps * 256;
    const bool live = c.RowActive(j * 8 + (c.lane >> 2));
    float squares[kBlock] = {};
#pragma unroll 1
    for (int first = 0; first < count; first += kBlock) {
      uint2 v[kBlock];
      WaitX<NT, kBlock, kMmaWarps * 512>(c, x + 2 * (row + first * (kMmaWarps * 256)),
                                         count - first, live, v);
#pragma unroll
      for (int n = 0; n < kBlock; ++n) {
        if (first + n >= count) continue;
        *reinterpret_cast<uint2*>(xs + j * p.smem.xs_row_bytes + (first + n) * (kMmaWarps * 256)) =
            v[n];
        squares[n] += SumOfSquares(v[n], 0.0f);
      }
    }
    if (!layer_norm) {
      sum[j] = ((squares[0] + squares[1]) + (squares[2] + squares[3])) +
               ((squares[4] + squares[5]) + (squares[6] + squares[7]));
    }
    if (layer_norm) {
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        const uint2 v =
            *reinterpret_cast<const uint2*>(xs + j * p.smem.xs_row_bytes + i * (kMmaWarps * 256));
        sum[j] += LowFloat(v.x) + HighFloat(v.x) + LowFloat(v.y) + HighFloat(v.y);
      }
    }
  }
  const float scale_down = 1.0f / static_cast<float>(p.hidden);
  if (layer_norm) {
    SumRows(c, sum, 1);
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      mean[j] = sum[j] * scale_down;
      sum[j] = 0.0f;
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        sum[j] += SumOfSquares(
            *reinterpret_cast<const uint2*>(xs + j * p.smem.xs_row_bytes + i * (kMmaWarps * 256)),
            mean[j]);
      }
    }
  }
  AsyncCopyWait();
  SumRows(c, sum, 0);
  float scale[NT];
#pragma unroll
  for (int j = 0; j < NT; ++j) scale[j] = rsqrtf(sum[j] * scale_down + p.norm_epsilon);
  // With many rows there is no room to keep the weights ahead; their latency matters less then,
  // too.
  const uint16_t* weights = kNormAhead<NT> ? c.smem.norm() : this_weight;
  const uint32_t* weight = reinterpret_cast<const uint32_t*>(weights + c.warp * 16) + (c.lane & 3);
#pragma unroll 2
  for (int i = 0; i < count; ++i) {
    const uint32_t w0 = weight[i * 64], w1 = weight[i * 64 + 4];
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      uint2* at = reinterpret_cast<uint2*>(xs + j * p.smem.xs_row_bytes + i * (kMmaWarps * 256));
      *at = NormRow{mean[j], scale[j], layer_norm}.Of(*at, w0, w1);
    }
  }
}

// xs of the task's layer; then the copy of the next norm's weights starts.
template <int NT>
__device__ void LoadNormalised(MmaGroup<NT>& c, const uint16_t* this_weight,
                               const uint16_t* next_weight) {
  constexpr int kMostOneRow = 2 * 8 * kMmaWarps * 16;
  if (NT == 1 && __popc(c.misc.active_rows) == 1 && !c.p.norm_is_layer_norm &&
      c.p.hidden <= kMostOneRow) {
    if constexpr (NT == 1) LoadOneRow(c);
  } else {
    LoadRows(c, this_weight);
  }
  c.Sync();
  if (kNormAhead<NT>) PrefetchNorm(c, next_weight);
}

}  // namespace baton::cuda
