// The norm, fused into the load of x: every worker normalises all of x for itself.
#pragma once

#include "kernels/cuda/decode/mma_group.cuh"

namespace baton::cuda {

// Starts the copy of the norm's weights of this warp's k-steps to shared memory.
template <int NT>
__device__ __forceinline__ void CopyWeights(const MmaGroup<NT>& c, const uint16_t* weights) {
  for (int k = c.warp * 16 + (c.lane >> 1) * (kMmaWarps * 16); k < c.p.hidden;
       k += 16 * kMmaWarps * 16) {
    const int at = k + (c.lane & 1) * 8;
    AsyncCopy16(SmemAddress(c.smem.norm() + at), weights + at);
  }
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

// This lane's two packets of x of each of its `count` k-steps from `at`, at least one, kStride
// bytes apart, then copies of the last; waits until all carry the layer's epoch. With `polls` the
// first k-step's are waited for by themselves: many would take bandwidth.
template <int kCount, int kStride>
__device__ __forceinline__ void WaitX(const MmaGroup<1>& c, const char* at, int count, bool polls,
                                      uint2 (&v)[kCount]) {
  ulonglong2 packet[kCount];
  const uint32_t epoch = c.Epoch(c.task().layer);
  c.WaitPackets(c.task().waits[0].counter, [&] {
    if (polls) {
      packet[0] = LoadRelaxedPair(at);
      if (!__all_sync(~0u, Has(packet[0], epoch))) return false;
    }
    polls = kCount > 2;
#pragma unroll
    for (int n = 0; n < kCount; ++n) packet[n] = LoadRelaxedPair(at + min(n, count - 1) * kStride);
    bool all = true;
#pragma unroll
    for (int n = 0; n < kCount; ++n) all &= Has(packet[n], epoch);
    return all;
  });
#pragma unroll
  for (int n = 0; n < kCount; ++n) v[n] = make_uint2(uint32_t(packet[n].x), uint32_t(packet[n].y));
}

// The norm of four elements: as Hugging Face, RMSNorm rounds v * rstd to bf16, then the product
// with the weight; LayerNorm rounds once.
struct NormRow {
  float mean, scale;
  bool layer_norm;
  __device__ uint2 Of(uint2 v, uint32_t w0, uint32_t w1) const {
    return make_uint2(Pair(v.x, w0), Pair(v.y, w1));
  }
  __device__ uint32_t Pair(uint32_t v, uint32_t w) const {
    if (!layer_norm) return MultiplyBf16(PackBf16(LowFloat(v) * scale, HighFloat(v) * scale), w);
    return PackBf16(LowFloat(w) * ((LowFloat(v) - mean) * scale),
                    HighFloat(w) * ((HighFloat(v) - mean) * scale));
  }
};

// RMSNorm of the only active row: its k-steps are spread over all lanes, so that one round trip
// fetches them. The sum's order is LoadRows': lane group g adds the warp's k-steps g, g + 8,
// then groups, then the four lanes of a group, then warps.
inline constexpr int kOneRowSteps = 2;  // Of a lane, at most.
__device__ __forceinline__ void LoadOneRow(MmaGroup<1>& c) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16, group = c.lane >> 2, t = c.lane & 3;
  const int row = __ffs(c.misc.active_rows) - 1;
  const int first = c.warp + group * kMmaWarps;
  constexpr int kStride = 8 * kMmaWarps;                              // K-steps.
  const int count = max(0, (steps - first + kStride - 1) / kStride);  // 0, 1 or 2.
  const uint32_t place = (row * 4 + t) * 8;
  uint2 v[kOneRowSteps];
  const char* x = p.x_packets + c.task().buffer_epoch * p.x_packets_copy_bytes + 2 * place;
  // A lane group without k-steps reads the first one's.
  if (count > 0) x += first * 512;
  WaitX<kOneRowSteps, kStride * 512>(c, x, max(1, count), false, v);
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < kOneRowSteps; ++n) {
    if (n < count) sum += SumOfSquares(v[n], 0.0f);
  }
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
  for (int n = 0; n < kOneRowSteps; ++n) {
    if (n >= count) continue;
    const int step = first + n * kStride;
    *reinterpret_cast<uint2*>(c.smem.xs() + step * 256 + place) =
        norm.Of(v[n], weight[step * 8], weight[step * 8 + 4]);
  }
}

// This lane's places of xs in the warp's k-steps.
template <int NT>
struct OwnPlaces {
  char* const at;
  const uint32_t row_bytes;
  const int count;  // K-steps.
  __device__ explicit OwnPlaces(const MmaGroup<NT>& c)
      : at(c.smem.xs() + (c.warp * 32 + c.lane) * 8),
        row_bytes(c.p.smem.xs_row_bytes),
        count((c.p.hidden / 16 - c.warp + kMmaWarps - 1) / kMmaWarps) {}
  __device__ uint2& Of(int row_tile, int i) const {
    return *reinterpret_cast<uint2*>(at + row_tile * row_bytes + i * (kMmaWarps * 256));
  }
};

// A lane's sum of squares: eight accumulators take its k-steps in turn.
struct TurnSquares {
  static constexpr int kTurns = 8;
  float of[kTurns] = {};
  __device__ float Sum() const {
    return ((of[0] + of[1]) + (of[2] + of[3])) + ((of[4] + of[5]) + (of[6] + of[7]));
  }
};

// x of the task's copy into xs, every warp its own k-steps, s % 8 == warp, and the sums of squares.
// What the columns of rows that are not active hold does not matter: columns do not mix.
__device__ __forceinline__ float FetchPackets(const MmaGroup<1>& c, const OwnPlaces<1>& places) {
  const DecodeParams& p = c.p;
  constexpr int kTurns = TurnSquares::kTurns, kStride = kMmaWarps * 512;
  // A row that is not active is a copy of one that is: it takes no bandwidth.
  const int row = c.RowActive(c.lane >> 2) ? c.lane >> 2 : max(0, __ffs(c.misc.active_rows) - 1);
  const char* x = p.x_packets + c.task().buffer_epoch * p.x_packets_copy_bytes +
                  (c.warp * 32 + row * 4 + (c.lane & 3)) * 16;
  TurnSquares squares;
#pragma unroll 1
  for (int first = 0; first < places.count; first += kTurns) {
    uint2 v[kTurns];
    const int count = places.count - first;
    WaitX<kTurns, kStride>(c, x + first * kStride, count, first == 0, v);
#pragma unroll
    for (int n = 0; n < kTurns; ++n) {
      if (n >= count) continue;
      places.Of(0, first + n) = v[n];
      squares.of[n] += SumOfSquares(v[n], 0.0f);
    }
  }
  return squares.Sum();
}
template <int NT>
__device__ __forceinline__ void FetchRows(const MmaGroup<NT>& c, const OwnPlaces<NT>& places,
                                          float (&sum)[NT]) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16;
  // 16 bytes a lane, two neighbouring lanes' of one column; all copies are on their way at once.
  const int part = c.lane & 15, first_step = c.warp + (c.lane >> 4) * kMmaWarps;
  const char* x = p.x + c.task().buffer_epoch * p.x_copy_bytes + part * 16;
  const uint32_t xs = SmemAddress(c.smem.xs()) + part * 16;
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    if (!c.RowActive(j * 8 + (part >> 1))) continue;
#pragma unroll 4
    for (int step = first_step; step < steps; step += 2 * kMmaWarps)
      AsyncCopy16(xs + j * p.smem.xs_row_bytes + step * 256, x + (j * steps + step) * 256);
  }
  AsyncCopyWait();
  __syncwarp();
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    TurnSquares squares;
#pragma unroll 1
    for (int first = 0; first < places.count; first += TurnSquares::kTurns) {
#pragma unroll
      for (int n = 0; n < TurnSquares::kTurns; ++n) {
        if (first + n < places.count) squares.of[n] += SumOfSquares(places.Of(j, first + n), 0.0f);
      }
    }
    sum[j] = squares.Sum();
  }
}

// LayerNorm's mean and sums of squares of what is left without it.
template <int NT>
__device__ __forceinline__ void LayerNormSums(MmaGroup<NT>& c, const OwnPlaces<NT>& places,
                                              float (&mean)[NT], float (&sum)[NT]) {
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    mean[j] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < places.count; ++i) {
      const uint2 v = places.Of(j, i);
      mean[j] += LowFloat(v.x) + HighFloat(v.x) + LowFloat(v.y) + HighFloat(v.y);
    }
  }
  SumRows(c, mean, 1);
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    mean[j] *= 1.0f / static_cast<float>(c.p.hidden);
    sum[j] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < places.count; ++i) sum[j] += SumOfSquares(places.Of(j, i), mean[j]);
  }
}

// xs, normalised in place.
template <int NT>
__device__ __forceinline__ void ScaleRows(const MmaGroup<NT>& c, const OwnPlaces<NT>& places,
                                          const NormRow (&norm)[NT]) {
  const uint32_t* weight =
      reinterpret_cast<const uint32_t*>(c.smem.norm() + c.warp * 16) + (c.lane & 3);
#pragma unroll 2
  for (int i = 0; i < places.count; ++i) {
    const uint32_t w0 = weight[i * 64], w1 = weight[i * 64 + 4];
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      uint2& v = places.Of(j, i);
      v = norm[j].Of(v, w0, w1);
    }
  }
}

// x of the task's copy, normalised, into xs.
template <int NT>
__device__ void LoadRows(MmaGroup<NT>& c) {
  const DecodeParams& p = c.p;
  const OwnPlaces<NT> places(c);
  float sum[NT], mean[NT] = {};
  if constexpr (NT == 1) {
    sum[0] = FetchPackets(c, places);
  } else {
    FetchRows(c, places, sum);
  }
  const bool layer_norm = p.norm_is_layer_norm;
  if (layer_norm) LayerNormSums(c, places, mean, sum);
  AsyncCopyWait();
  SumRows(c, sum, 0);
  NormRow norm[NT];
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    norm[j].mean = mean[j];
    norm[j].scale = rsqrtf(sum[j] * (1.0f / static_cast<float>(p.hidden)) + p.norm_epsilon);
    norm[j].layer_norm = layer_norm;
  }
  if (layer_norm) {
    ScaleRows(c, places, norm);
  } else {
#pragma unroll
    for (int j = 0; j < NT; ++j) norm[j].layer_norm = false;  // Known where it is inlined.
    ScaleRows(c, places, norm);
  }
}

// xs of the task's layer.
template <int NT>
__device__ void LoadNormalised(MmaGroup<NT>& c, const uint16_t* weights) {
  constexpr int kMostOneRow = kOneRowSteps * 8 * kMmaWarps * 16;
  CopyWeights(c, weights);
  if (NT == 1 && __popc(c.misc.active_rows) == 1 && !c.p.norm_is_layer_norm &&
      c.p.hidden <= kMostOneRow) {
    if constexpr (NT == 1) LoadOneRow(c);
  } else {
    LoadRows(c);
  }
  c.Sync();
}

}  // namespace baton::cuda
