// The norm, fused into the load of x: every worker normalises all of x for itself.
#pragma once

#include "kernels/cuda/decode/mma_group.cuh"

namespace baton::cuda {

// Starts the copy of the norm's weights of this warp's k-steps to shared memory.
template <int NT>
__device__ __forceinline__ void CopyWeights(const MmaGroup<NT>& c, const uint16_t* weights) {
  // Addresses worked out ahead of the task would fill registers.
  const int warp = Opaque(c.warp), lane = Opaque(c.lane);
  for (int k = warp * 16 + (lane >> 1) * (kMmaWarps * 16); k < c.p.hidden;
       k += 16 * kMmaWarps * 16) {
    const int at = k + (lane & 1) * 8;
    AsyncCopy16(SmemAddress(c.smem.norm() + at), weights + at);
  }
}

__device__ __forceinline__ float SumOfSquares(uint2 v, float mean) {
  const float a = LowFloat(v.x) - mean, b = HighFloat(v.x) - mean, c = LowFloat(v.y) - mean,
              d = HighFloat(v.y) - mean;
  return a * a + b * b + c * c + d * d;
}

// A row's sum over lanes and warps, in a fixed order: the warp's part, [warp][8 NT],
template <int NT>
__device__ __forceinline__ void PutPartial(const MmaGroup<NT>& c, int of, int row_tile, float sum) {
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if ((c.lane & 3) == 0)
    c.smem.norm_partial(of)[(c.warp * NT + row_tile) * 8 + (c.lane >> 2)] = sum;
}
// and, past a barrier, all of it.
template <int NT>
__device__ __forceinline__ float RowSum(const MmaGroup<NT>& c, int of, int row_tile) {
  const float* partial = c.smem.norm_partial(of) + row_tile * 8 + (c.lane >> 2);
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kMmaWarps; ++w) sum += partial[w * NT * 8];
  return sum;
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
// fetches them. The norm's weights of these are this lane's alone and do not go through shared
// memory. The sum's order is LoadRows': lane group g adds the warp's k-steps g, g + 8, then groups,
// then the four lanes of a group, then warps.
inline constexpr int kOneRowSteps = 2;  // Of a lane, at most.
__device__ __forceinline__ void LoadOneRow(MmaGroup<1>& c, const uint16_t* weights) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16, group = c.lane >> 2, t = c.lane & 3;
  const int row = __ffs(c.misc.active_rows) - 1;
  const int first = c.warp + group * kMmaWarps;
  constexpr int kStride = 8 * kMmaWarps;                              // K-steps.
  const int count = max(0, (steps - first + kStride - 1) / kStride);  // 0, 1 or 2.
  const uint32_t place = (row * 4 + t) * 8;
  uint32_t weight[kOneRowSteps][2];
#pragma unroll
  for (int n = 0; n < kOneRowSteps; ++n) {
    const uint32_t* from =
        reinterpret_cast<const uint32_t*>(weights) + (first + n * kStride) * 8 + t;
    weight[n][0] = n < count ? __ldg(from) : 0;
    weight[n][1] = n < count ? __ldg(from + 4) : 0;
  }
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
  c.Sync();
  float all = 0.0f;
#pragma unroll
  for (int w = 0; w < kMmaWarps; ++w) all += c.smem.norm_partial(0)[w * 8 + row];
  const NormRow norm{0.0f, rsqrtf(all * (1.0f / static_cast<float>(p.hidden)) + p.norm_epsilon),
                     false};
#pragma unroll
  for (int n = 0; n < kOneRowSteps; ++n) {
    if (n >= count) continue;
    const int step = first + n * kStride;
    *reinterpret_cast<uint2*>(c.smem.xs() + step * 256 + place) =
        norm.Of(v[n], weight[n][0], weight[n][1]);
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
__device__ __forceinline__ void FetchRows(const MmaGroup<NT>& c) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16;
  // 16 bytes a lane, two neighbouring lanes' of one column; all copies are on their way at once.
  const int part = c.lane & 15, first_step = c.warp + (c.lane >> 4) * kMmaWarps;
  const char* x = p.x + c.task().buffer_epoch * p.x_copy_bytes + part * 16;
  const uint32_t xs = SmemAddress(c.smem.xs()) + part * 16;
#pragma unroll 1
  for (int j = 0; j < NT; ++j) {
    if (!c.RowActive(j * 8 + (part >> 1))) continue;
#pragma unroll 4
    for (int step = first_step; step < steps; step += 2 * kMmaWarps)
      AsyncCopy16(xs + j * p.smem.xs_row_bytes + step * 256, x + (j * steps + step) * 256);
  }
  AsyncCopyWait();
  __syncwarp();
}
// A lane's sum of squares of a row in xs.
template <int NT>
__device__ __forceinline__ float SquaresInXs(const OwnPlaces<NT>& places, int row_tile) {
  TurnSquares squares;
#pragma unroll 1
  for (int first = 0; first < places.count; first += TurnSquares::kTurns) {
#pragma unroll
    for (int n = 0; n < TurnSquares::kTurns; ++n) {
      if (first + n < places.count)
        squares.of[n] += SumOfSquares(places.Of(row_tile, first + n), 0.0f);
    }
  }
  return squares.Sum();
}

// LayerNorm's mean of a row.
template <int NT>
__device__ __forceinline__ float RowMean(const MmaGroup<NT>& c, int row_tile) {
  return RowSum(c, 1, row_tile) * (1.0f / static_cast<float>(c.p.hidden));
}
// Its sums, with the squares of what is left without the mean.
template <int NT>
__device__ __forceinline__ void PutLayerNormSums(MmaGroup<NT>& c, const OwnPlaces<NT>& places) {
#pragma unroll 1
  for (int j = 0; j < NT; ++j) {
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < places.count; ++i) {
      const uint2 v = places.Of(j, i);
      sum += LowFloat(v.x) + HighFloat(v.x) + LowFloat(v.y) + HighFloat(v.y);
    }
    PutPartial(c, 1, j, sum);
  }
  c.Sync();
#pragma unroll 1
  for (int j = 0; j < NT; ++j) {
    const float mean = RowMean(c, j);
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < places.count; ++i) sum += SumOfSquares(places.Of(j, i), mean);
    PutPartial(c, 0, j, sum);
  }
}

// xs, normalised in place. Row tile by row tile: what runs once a layer comes from L2, and the
// fewer instructions it is, the sooner it is done.
template <int NT, bool kLayerNorm>
__device__ __forceinline__ void ScaleRows(const MmaGroup<NT>& c, const OwnPlaces<NT>& places) {
  const uint32_t* weight =
      reinterpret_cast<const uint32_t*>(c.smem.norm() + c.warp * 16) + (c.lane & 3);
#pragma unroll 1
  for (int j = 0; j < NT; ++j) {
    const float mean_square = RowSum(c, 0, j) * (1.0f / static_cast<float>(c.p.hidden));
    const NormRow norm{kLayerNorm ? RowMean(c, j) : 0.0f, rsqrtf(mean_square + c.p.norm_epsilon),
                       kLayerNorm};
#pragma unroll(kLayerNorm ? 1 : 4)
    for (int i = 0; i < places.count; ++i) {
      uint2& v = places.Of(j, i);
      v = norm.Of(v, weight[i * 64], weight[i * 64 + 4]);
    }
  }
}

// x of the task's copy, normalised, into xs.
template <int NT>
__device__ void LoadRows(MmaGroup<NT>& c) {
  const OwnPlaces<NT> places(c);
  float fetched = 0.0f;
  if constexpr (NT == 1) {
    fetched = FetchPackets(c, places);
  } else {
    FetchRows(c);
  }
  if (c.p.norm_is_layer_norm) {
    PutLayerNormSums(c, places);
  } else {
#pragma unroll 1
    for (int j = 0; j < NT; ++j) PutPartial(c, 0, j, NT == 1 ? fetched : SquaresInXs(places, j));
  }
  AsyncCopyWait();
  c.Sync();
  if (c.p.norm_is_layer_norm) {
    ScaleRows<NT, true>(c, places);
  } else {
    ScaleRows<NT, false>(c, places);
  }
}

// xs of the task's layer.
template <int NT>
__device__ void LoadNormalised(MmaGroup<NT>& c, const uint16_t* weights) {
  constexpr int kMostOneRow = kOneRowSteps * 8 * kMmaWarps * 16;
  if (NT == 1 && __popc(c.misc.active_rows) == 1 && !c.p.norm_is_layer_norm &&
      c.p.hidden <= kMostOneRow) {
    if constexpr (NT == 1) LoadOneRow(c, weights);
  } else {
    CopyWeights(c, weights);
    LoadRows(c);
  }
  c.Sync();
}

}  // namespace baton::cuda
