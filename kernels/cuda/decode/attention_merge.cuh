// The attention's merge: what the workers made of a row's splits, and the step's own key and value,
// become the operand of the output projection.
#pragma once

#include "kernels/cuda/decode/attention_group.cuh"

namespace baton::cuda {

// The softmax over what was added up.
struct MergedSoftmax {
  float peak = kLowest, sum = 0.0f;
  __device__ MergeFactors Add(float other_peak, float other_sum) {
    const float both = fmaxf(peak, other_peak);
    const MergeFactors factors{Exp2(peak - both), Exp2(other_peak - both)};
    sum = factors.Apply(sum, other_sum);
    peak = both;
    return factors;
  }
  // Those of two lanes, the lower one's first.
  __device__ MergeFactors AddAcross(int offset, int lane) {
    const float other_peak = __shfl_xor_sync(~0u, peak, offset);
    const float other_sum = __shfl_xor_sync(~0u, sum, offset);
    const bool lower = (lane & offset) == 0;
    const MergedSoftmax high =
        lower ? MergedSoftmax{other_peak, other_sum} : MergedSoftmax{peak, sum};
    if (!lower) *this = {other_peak, other_sum};
    return Add(high.peak, high.sum);
  }
};

// What a warp merges: part `part` of the dimensions of a row's query head. One register, for they
// are few while all loads are on their way: what is needed of Again() is worked out again.
struct MergePlace {
  uint32_t bits;
  __device__ MergePlace(uint32_t row, uint32_t query_head, uint32_t head, uint32_t part)
      : bits(row << 27 | head << 15 | query_head << 3 | part) {}
  __device__ MergePlace Again() const {
    MergePlace copy = *this;
    copy.bits = Opaque(bits);
    return copy;
  }
  __device__ uint32_t row() const { return bits >> 27; }
  __device__ uint32_t head() const { return bits >> 15 & 0xfff; }
  __device__ uint32_t query_head() const { return bits >> 3 & 0xfff; }
  // The first of four dimensions of a lane.
  template <int kParts>
  __device__ uint32_t Dim(uint32_t lane) const {
    return (bits & 7) * (kHeadDim / kParts) + lane % (32 / kParts) * 4;
  }
};

// Four dimensions of the step's own query and key of a row's query head in every lane, and of its
// value those that the lane merges.
struct OwnKey {
  ulonglong2 q, k, v;
  __device__ void Load(const AttentionGroup& c, MergePlace at, uint32_t dim) {
    const DecodeParams& p = c.p;
    const uint32_t half = uint32_t(Opaque(p.kv_width)) / 2, heads = Opaque(p.query_heads);
    q = LoadRelaxedPair(p.q + (at.row() * heads + at.query_head()) * (kHeadDim / 2) + c.lane * 2);
    const uint64_t* own = p.new_kv + at.row() * 2 * half + at.head() * (kHeadDim / 2);
    k = LoadRelaxedPair(own + c.lane * 2);
    v = LoadRelaxedPair(own + half + dim / 2);
  }
  __device__ bool Arrived(uint32_t epoch) const {
    return Has(q, epoch) && Has(k, epoch) && Has(v, epoch);
  }
  __device__ static float Product(uint64_t a, uint64_t b) {
    return LowFloat(uint32_t(a)) * LowFloat(uint32_t(b)) +
           HighFloat(uint32_t(a)) * HighFloat(uint32_t(b));
  }
  // Times kLog2e; the same in all lanes.
  __device__ float Score(const AttentionGroup& c) const {
    float score = Product(q.x, k.x) + Product(q.y, k.y);
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) score += __shfl_xor_sync(~0u, score, offset);
    return score * c.p.attention_scale * kLog2e;
  }
  __device__ float4 Value() const {
    return make_float4(LowFloat(uint32_t(v.x)), HighFloat(uint32_t(v.x)), LowFloat(uint32_t(v.y)),
                       HighFloat(uint32_t(v.y)));
  }
};

// Dimensions k and k + 1 of a row's attention, for the output projection.
template <int NT>
__device__ __forceinline__ void StoreMerged(const AttentionGroup& c, int row, int k,
                                            uint32_t pair) {
  const DecodeParams& p = c.p;
  const int steps = uint32_t(Opaque(p.q_width)) / 16;
  if (SoleRowPackets<NT>(p, c.misc)) {
    StorePacket(p.attention_row + PacketOffset(steps, row, k), pair, c.Epoch(c.task().layer));
  } else {
    *reinterpret_cast<uint32_t*>(p.attention + FragmentOffset(steps, row, k)) = pair;
  }
}

// The merge of a row's query head. Split s is turn s % kTurns's. A turn adds up its splits in
// ascending order, the first one after the step's own key; then neighbouring turns are added, then
// neighbouring pairs, and so on: an order that depends on the row alone.
//
// A warp does one of kParts parts, of 128 / kParts dimensions: four a lane, and as many turns side
// by side as there are lanes for. What the sums are multiplied by, turn t's, is worked out by lanes
// 4t to 4t + 3, for all. A round's loads are on their way at once; with fewer parts than turns,
// when a lane has the sums of several turns, one round is all there is.
inline constexpr int kTurns = 8, kTurnLevels = 3;
inline constexpr int kTurnSplits = 5;  // Of a turn, a round.
inline constexpr int kRoundSplits = kTurns * kTurnSplits;
inline constexpr int kMostParts = kTurns, kLeastParts = 2;
template <int NT, int kParts>
__device__ __forceinline__ void MergePart(const AttentionGroup& c, MergePlace place,
                                          bool rehearse) {
  constexpr uint32_t kLanes = 32 / kParts, kLaneTurns = kTurns / kParts;
  const DecodeParams& p = c.p;
  const uint32_t lane = Opaque(c.lane);
  const uint32_t turn = lane >> 2, first_turn = lane / kLanes * kLaneTurns;
  const uint32_t splits = c.misc.splits[c.layer().sliding][place.row()];
  const uint32_t epoch = c.Epoch(c.task().layer);
  // Maxima and sums: a lane loads its turn's or, short of registers, some splits' of the round.
  constexpr uint32_t kLoadSplits = kLaneTurns == 1 ? kTurns : 32,
                     kLoads = kLaneTurns == 1 ? kTurnSplits : 2;
  const uint32_t ml_lane = kLaneTurns == 1 ? turn : lane;
  const auto of_lane = [&](MergeFactors factors, int lane_turn) {
    return kLaneTurns == 1 ? factors : factors.Of(4 * (first_turn + lane_turn));
  };
  MergedSoftmax softmax;
  float4 o[kLaneTurns] = {};
#pragma unroll 1
  for (uint32_t first = 0; first == 0 || (kLaneTurns == 1 && first < splits);
       first += kRoundSplits) {
    OwnKey own;
    float2 ml[kLoads];
    float4 v[kLaneTurns][kTurnSplits];
    {
      const MergePlace at = place.Again();
      const uint32_t heads = Opaque(p.group_heads), dim = at.Dim<kParts>(lane);
      own.Load(c, at, dim);
      const uint32_t base = ((at.row() * p.kv_heads + at.head()) * p.max_splits + first) * heads +
                            at.query_head() - at.head() * heads;
      const float2* ml_from = p.partial_ml + base + ml_lane * heads;
      const float* v_from = p.partial_o + uint64_t(base + first_turn * heads) * kHeadDim + dim;
      const int left = splits - first;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        ml[i] = LoadRelaxed2If(int(i * kLoadSplits + ml_lane) < left,
                               ml_from + i * kLoadSplits * heads);
      }
#pragma unroll
      for (int i = 0; i < kTurnSplits; ++i) {
#pragma unroll
        for (int j = 0; j < kLaneTurns; ++j) {
          v[j][i] = LoadRelaxed4If(int(i * kTurns + j + first_turn) < left,
                                   v_from + (i * kTurns + j) * (heads * kHeadDim));
        }
      }
    }
    // On its own: with all loads in the loop, their addresses would be worked out before it.
    if (!rehearse && !__all_sync(~0u, own.Arrived(epoch))) {
      c.WaitPackets(c.task().waits[0].counter, [&] {
        const MergePlace at = place.Again();
        own.Load(c, at, at.Dim<kParts>(lane));
        return own.Arrived(epoch);
      });
    }
    if (first == 0) {
      MergedSoftmax of_own;
      const MergeFactors factors = of_own.Add(own.Score(c), 1.0f);
      if (turn == 0) softmax = of_own;
      if (first_turn == 0) o[0] = factors.Apply(o[0], own.Value());
    }
#pragma unroll
    for (int i = 0; i < kTurnSplits; ++i) {
      MergeFactors factors{1.0f, 0.0f};  // Of a split that there is not.
      const uint32_t at = i * kTurns + turn;
      float2 split = ml[i * kTurns / kLoadSplits];
      if (kLaneTurns > 1) {
        split = {__shfl_sync(~0u, split.x, at & 31), __shfl_sync(~0u, split.y, at & 31)};
      }
      if (first + at < splits) factors = softmax.Add(split.x, split.y);
#pragma unroll
      for (int j = 0; j < kLaneTurns; ++j) o[j] = of_lane(factors, j).Apply(o[j], v[j][i]);
    }
  }
#pragma unroll
  for (int level = 0; level < kTurnLevels; ++level) {
    const MergeFactors factors = softmax.AddAcross(4 << level, lane);
    const uint32_t step = 1 << level;
    if (step < kLaneTurns) {
#pragma unroll
      for (uint32_t j = 0; j < kLaneTurns; j += 2 * step)
        o[j] = of_lane(factors, j).Apply(o[j], o[j + step]);
      continue;
    }
    const uint32_t offset = step / kLaneTurns * kLanes;
    const float4 other =
        make_float4(__shfl_xor_sync(~0u, o[0].x, offset), __shfl_xor_sync(~0u, o[0].y, offset),
                    __shfl_xor_sync(~0u, o[0].z, offset), __shfl_xor_sync(~0u, o[0].w, offset));
    const MergeFactors own = of_lane(factors, 0);
    o[0] = (lane & offset) == 0 ? own.Apply(o[0], other) : own.Apply(other, o[0]);
  }
  // All lanes know the sums of their dimensions: the first two groups write a half of them each.
  const uint32_t group = lane / kLanes;
  const float low = group == 0 ? o[0].x : o[0].z, high = group == 0 ? o[0].y : o[0].w;
  const uint32_t pair = PackBf16(low / softmax.sum, high / softmax.sum);
  if (group > 1 || rehearse || c.Lost()) return;
  const MergePlace at = place.Again();
  StoreMerged<NT>(c, at.row(), at.query_head() * kHeadDim + at.Dim<kParts>(lane) + 2 * group, pair);
}

// Parts go to workers in turn, then to their warps.
template <int NT, int kParts>
__device__ __forceinline__ void MergeRows(const AttentionGroup& c, bool rehearse) {
  const DecodeParams& p = c.p;
#pragma unroll 1
  for (uint32_t at = c.worker + c.warp * p.worker_count;;
       at += kAttentionWarps * Opaque(p.worker_count)) {
    const uint32_t row_parts = kParts * Opaque(p.query_heads), before = at / row_parts;
    uint32_t rows = c.misc.active_rows;
#pragma unroll 1
    for (uint32_t i = 0; i < before; ++i) rows &= rows - 1;
    if (rows == 0) return;
    const uint32_t of = at - before * row_parts, query_head = of / kParts;
    MergePart<NT, kParts>(c,
                          {uint32_t(__ffs(rows) - 1), query_head,
                           query_head / uint32_t(Opaque(p.group_heads)), of % kParts},
                          rehearse);
    if (rehearse) return;
  }
}

// While there are fewer parts than warps, small ones: they are there soonest. With more rows, large
// ones: a warp does one after the other, each as long as its loads' round trip.
template <int NT>
__device__ __forceinline__ void RunAttentionMerge(const AttentionGroup& c) {
  const DecodeParams& p = c.p;
  const int heads = __popc(c.misc.active_rows) * p.query_heads;
  if (heads * kMostParts <= kAttentionWarps * p.worker_count || p.max_splits > kRoundSplits) {
    // The pair that had nothing to store does it once before, on whatever there is: the code,
    // which else would come from L2 while the output projection waits, is near then.
    const bool idle = NT == 1 && OnePairStores(c) && !InFirstPair(c);
#pragma unroll 1
    for (int pass = idle ? 0 : 1; pass < 2; ++pass) {
      if (pass == 1) {
        c.WaitTask();
        c.Trace(kTaskWaited);
      }
      MergeRows<NT, kMostParts>(c, NT == 1 && pass == 0);
    }
  } else {
    c.WaitTask();
    c.Trace(kTaskWaited);
    MergeRows<NT, kLeastParts>(c, false);
  }
}

}  // namespace baton::cuda
