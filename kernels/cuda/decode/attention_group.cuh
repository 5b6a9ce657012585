// Attention, by warps of its own, beside the experts' stream. Each worker has at most one (kv head,
// split) of a row: an item, the work of a pair of warps. Items go to the pairs in turn, so that
// those of several rows are computed side by side and nothing is ever waited for but pages. An item
// of many pages (kSharedPages) is the work of both pairs, which take its pages by turns.
//
// Page by page: its keys, then its values. Scores and outputs are computed transposed, so that the
// matrix instruction's 16 rows are all used: S^T [keys, heads] = K Q^T, then, with the softmax
// in registers, O^T [dims, heads] += V^T P^T. Both warps of a pair compute all scores, each half of
// the dimensions: to exchange scores would cost more, and outputs of all dimensions would leave too
// few registers to have several matrices on their way. Keys before the row's own position come from
// pages through the ring; the step's own key and value come from the QKV task's buffer and are
// added by AttentionMerge.
#pragma once

#include "kernels/cuda/decode/routing.cuh"

namespace baton::cuda {

inline constexpr float kLowest = -1e30f;  // Maximum of nothing; finite, so that differences are.
inline constexpr float kLog2e = 1.4426950408889634f;
inline constexpr int kPageKeys = 64;
inline constexpr int kPairs = kAttentionWarps / kPairWarps;
inline constexpr int kKeyTiles = kPageKeys / 16, kDimTiles = kHeadDim / kPairWarps / 16;
inline constexpr int kTokenBytes = 2 * kHeadDim;  // Of a key or value in a page's tile.
inline constexpr int kHeadSteps = kHeadDim / 16;

// A warp's end of the pages' ring: it takes the tiles of its own items and skips the others'.
struct PageRing {
  const AttentionGroup& c;

  __device__ PageCursor& At() const { return c.misc.page_cursors[c.warp]; }
  // The warp may be so far ahead of others that the slot's barrier is at the phase of an earlier
  // tile, whose parity says nothing: the tile must have been asked for.
  __device__ bool Arrived() const {
    const PageCursor& at = At();
    const uint32_t issued = *const_cast<const volatile uint32_t*>(&c.misc.issued[kPageRing]);
    return static_cast<int32_t>(issued - at.taken) > 0 &&
           BarrierTryWait(SmemAddress(&c.misc.rings[kPageRing].full[at.next.slot]), at.next.phase);
  }
  // Not written down for the watchdog: another warp of the role may wait for what is missing.
  __device__ char* Acquire() const {
    while (!Arrived() && !Ending(c.misc)) {
    }
    return c.smem.page_slot(At().next.slot);
  }
  __device__ void Release() const {
    __syncwarp();
    if (c.lane == 0) {
      PageCursor& at = At();
      BarrierArrive(SmemAddress(&c.misc.rings[kPageRing].empty[at.next.slot]));
      ++at.taken;
      at.next.Advance(c.p.smem.page_slot_count);
    }
    __syncwarp();
  }
  __device__ void Skip(int tiles) const {
    __syncwarp();
    if (c.lane == 0) {
      PageCursor& at = At();
      const int to = at.next.slot + tiles, rounds = to / c.p.smem.page_slot_count;
      at.taken += tiles;
      at.next.slot = to - rounds * c.p.smem.page_slot_count;
      at.next.phase ^= rounds & 1;
    }
    __syncwarp();
  }
};

// What a row's keys are masked by.
struct LiveKeys {
  int low, position;
  __device__ bool Has(int key) const { return uint32_t(key - low) < uint32_t(position - low); }
  __device__ bool HasAll(int page) const {
    return page * kPageKeys >= low && (page + 1) * kPageKeys <= position;
  }
};

// The queries of a row's KV head as B operand: q[s] = dims 16 s + 2t, 2t + 1 and those 8 later, of
// head lane / 4. Heads that the group does not have are copies of its first; they are not stored.
__device__ __forceinline__ void LoadQueries(const AttentionGroup& c, int row, int head,
                                            uint32_t (&q)[kHeadSteps][2]) {
  const DecodeParams& p = c.p;
  const int group_head = c.lane >> 2, read_head = group_head < p.group_heads ? group_head : 0;
  const uint64_t* from = p.q + uint64_t(row) * (p.q_width / 2) +
                         (head * p.group_heads + read_head) * (kHeadDim / 2) + (c.lane & 3);
  const uint32_t epoch = c.Epoch(c.task().layer);
  for (bool polls = false;; polls = true) {
    // If they are not there, one packet of every head is polled: all would take bandwidth.
    if (polls) {
      c.WaitPackets(c.task().waits[0].counter, [&] { return Has(LoadRelaxed64(from), epoch); });
    }
    bool all = true;
#pragma unroll
    for (int s = 0; s < kHeadSteps; ++s) {
      const uint64_t low = LoadRelaxed64(from + s * 8), high = LoadRelaxed64(from + s * 8 + 4);
      all &= Has(low, epoch) && Has(high, epoch);
      q[s][0] = uint32_t(low);
      q[s][1] = uint32_t(high);
    }
    if (__all_sync(~0u, all) || __any_sync(~0u, Ending(c.misc))) return;
  }
}

// s[m] = the products of keys 16 m + lane / 4 (0, 1) and those 8 later (2, 3) with heads 2t and
// 2t + 1.
__device__ __forceinline__ void ScoreKeys(const uint32_t (&q)[kHeadSteps][2], uint32_t tile,
                                          int lane, float (&s)[kKeyTiles][4]) {
  // Matrices: keys 0-7 and 8-15 of dims 0-7, then of dims 8-15.
  const uint32_t rows = tile + (lane & 15) * kTokenBytes;
  const uint32_t unit = ((lane >> 4) ^ (lane & 7)) << 4;
#pragma unroll
  for (int m = 0; m < kKeyTiles; ++m) s[m][0] = s[m][1] = s[m][2] = s[m][3] = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeadSteps; ++k) {
    const uint32_t at = rows + (unit ^ (k << 5));
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m)
      Mma16(s[m], LoadMatrix4(at + m * (16 * kTokenBytes)), make_uint2(q[k][0], q[k][1]));
  }
}

// What adding two softmax-weighted sums multiplies them by.
struct MergeFactors {
  float kept, added;
  // Fused by hand: every MergePart must round alike, whatever the compiler makes of it.
  __device__ float Apply(float to, float other) const {
    return __fmaf_rn(to, kept, __fmul_rn(other, added));
  }
  __device__ float4 Apply(float4 to, float4 other) const {
    return make_float4(Apply(to.x, other.x), Apply(to.y, other.y), Apply(to.z, other.z),
                       Apply(to.w, other.w));
  }
  // Those of another lane.
  __device__ MergeFactors Of(int lane) const {
    return {__shfl_sync(~0u, kept, lane), __shfl_sync(~0u, added, lane)};
  }
};

// A row's softmax so far, of heads 2t and 2t + 1, over the keys of this lane, and their outputs:
// o[d] = dims 16 d + lane / 4 (0, 1) and those 8 later (2, 3).
struct RunningAttention {
  float peak[2] = {kLowest, kLowest}, sum[2] = {};
  float o[kDimTiles][4] = {};

  // Takes a page's scores in and makes them probabilities: weights[m] = P^T as B operand.
  __device__ void Take(float (&s)[kKeyTiles][4], int first_key, LiveKeys live, bool all,
                       float scale, uint32_t (&weights)[kKeyTiles][2]) {
    float top[2] = {peak[0], peak[1]};
    if (!all) {
#pragma unroll
      for (int m = 0; m < kKeyTiles; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (!live.Has(first_key + 16 * m + (i >> 1) * 8)) s[m][i] = -INFINITY;
    }
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[m][i] = __fmul_rn(s[m][i], scale);  // Never fused with what is subtracted later.
        top[i & 1] = fmaxf(top[i & 1], s[m][i]);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int offset = 4; offset <= 16; offset <<= 1)
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], offset));
      const float shrink = Exp2(peak[h] - top[h]);
      peak[h] = top[h];
      sum[h] *= shrink;
#pragma unroll
      for (int d = 0; d < kDimTiles; ++d) {
        o[d][h] *= shrink;
        o[d][2 + h] *= shrink;
      }
    }
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[m][i] = Exp2(s[m][i] - peak[i & 1]);
        sum[i & 1] += s[m][i];
      }
      weights[m][0] = TransposeMatrix(PackBf16(s[m][0], s[m][1]));
      weights[m][1] = TransposeMatrix(PackBf16(s[m][2], s[m][3]));
    }
  }
  // o += V^T P^T for the page's keys. `tile`: where the warp's dimensions of its first key begin.
  __device__ void AddValues(uint32_t tile, int lane, const uint32_t (&weights)[kKeyTiles][2]) {
    // Matrices: dims 0-7 and 8-15 of keys 0-7, then of keys 8-15.
    const uint32_t rows = tile + ((lane & 7) + (lane >> 4) * 8) * kTokenBytes;
    const uint32_t unit = ((lane >> 3 & 1) ^ (lane & 7)) << 4;
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int d = 0; d < kDimTiles; ++d) {
        Mma16(o[d], LoadMatrix4Transposed(rows + (unit ^ (d << 5)) + m * (16 * kTokenBytes)),
              make_uint2(weights[m][0], weights[m][1]));
      }
    }
  }
  // To shared memory, [kFloats][32 lanes],
  static constexpr int kFloats = 4 + 4 * kDimTiles;
  __device__ void Store(float* to, int lane) const {
    to += lane;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      to[h * 32] = peak[h];
      to[(2 + h) * 32] = sum[h];
    }
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i) to[(4 + 4 * d + i) * 32] = o[d][i];
  }
  // and from there, of other keys of the same row and head: adds them up.
  __device__ void Add(const float* other, int lane) {
    other += lane;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float both = fmaxf(peak[h], other[h * 32]);
      const MergeFactors factors{Exp2(peak[h] - both), Exp2(other[h * 32] - both)};
      peak[h] = both;
      sum[h] = factors.Apply(sum[h], other[(2 + h) * 32]);
#pragma unroll
      for (int d = 0; d < kDimTiles; ++d) {
        o[d][h] = factors.Apply(o[d][h], other[(4 + 4 * d + h) * 32]);
        o[d][2 + h] = factors.Apply(o[d][2 + h], other[(4 + 4 * d + 2 + h) * 32]);
      }
    }
  }
};

// Values that no live key has may be anything, NaN too, and NaN times a probability of zero is NaN.
__device__ __forceinline__ void ClearDeadValues(char* tile, int page, LiveKeys live, int lane) {
#pragma unroll 1
  for (int key = lane >> 4; key < kPageKeys; key += 2) {
    if (live.Has(page * kPageKeys + key)) continue;
    *reinterpret_cast<uint4*>(tile + key * kTokenBytes + (lane & 15) * 16) = make_uint4(0, 0, 0, 0);
  }
  ProxyFence();  // The slot's next copy comes after these stores.
  __syncwarp();
}

// Items go to pairs in turn, the first to this: routing's list is made by warp 0.
inline constexpr int kFirstPair = 1;
__device__ __forceinline__ bool InFirstPair(const AttentionGroup& c) {
  return c.warp / kPairWarps == kFirstPair;
}
// Whether a page of a shared item is this pair's: every other one, the last one the other pair's.
__device__ __forceinline__ bool IsOwn(const AttentionGroup& c, const AttentionItem& item,
                                      int page) {
  return ((item.end - 1 - page) % kPairs != 0) == InFirstPair(c);
}

// Of a shared item: what the other pair has made goes to the first one, through the slot of the
// item's last values, which that pair releases in its stead. False: the other pair's warp, which is
// done then.
__device__ __forceinline__ bool JoinPairs(const AttentionGroup& c, const PageRing& ring,
                                          RunningAttention& running) {
  const int lane = Opaque(c.lane), half = Opaque(c.warp) % kPairWarps;
  if (!InFirstPair(c)) {
    float* to = reinterpret_cast<float*>(c.smem.page_slot(ring.At().next.slot));
    NamedBarrier(2 + kRoles, kPairWarps * 32);  // Both warps have read the slot.
    running.Store(to + half * (RunningAttention::kFloats * 32), lane);
    ProxyFence();  // The slot's next copy comes after these stores.
    c.Sync();
    ring.Skip(1);
    return false;
  }
  c.Sync();
  RingPlace last = ring.At().next;
  last.Retreat(c.p.smem.page_slot_count);
  const float* from = reinterpret_cast<const float*>(c.smem.page_slot(last.slot));
  running.Add(from + half * (RunningAttention::kFloats * 32), lane);
  __syncwarp();
  if (lane == 0) BarrierArrive(SmemAddress(&c.misc.rings[kPageRing].empty[last.slot]));
  return true;
}

__device__ __forceinline__ void AttendItem(const AttentionGroup& c, PageRing& ring, int row,
                                           const AttentionItem& item) {
  const DecodeParams& p = c.p;
  const int half = c.warp % kPairWarps;
  uint32_t q[kHeadSteps][2];
  LoadQueries(c, row, item.head, q);
  c.Trace(1);
  RunningAttention running;
  const bool shared = IsShared(item);
#pragma unroll 1
  for (int page = item.begin; page < item.end; ++page) {
    if (shared && !IsOwn(c, item, page)) {
      ring.Skip(2);
      continue;
    }
    float s[kKeyTiles][4];
    uint32_t weights[kKeyTiles][2];
    ScoreKeys(q, SmemAddress(ring.Acquire()), c.lane, s);
    ring.Release();
    const LiveKeys live{item.low, c.misc.position[row]};
    const bool all = live.HasAll(page);
    running.Take(s, page * kPageKeys + (c.lane >> 2), live, all, p.attention_scale * kLog2e,
                 weights);
    char* values = ring.Acquire();
    if (!all) ClearDeadValues(values, page, live, c.lane);
    running.AddValues(SmemAddress(values) + half * (kTokenBytes / kPairWarps), c.lane, weights);
    if (shared && page + 1 == item.end) break;  // The slot is still of use.
    ring.Release();
  }
  if (shared && !JoinPairs(c, ring, running)) return;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int offset = 4; offset <= 16; offset <<= 1)
      running.sum[h] += __shfl_xor_sync(~0u, running.sum[h], offset);
  const uint32_t base =
      ((row * p.kv_heads + item.head) * p.max_splits + item.split) * p.group_heads;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int group_head = 2 * (c.lane & 3) + h;
    if (group_head >= p.group_heads) continue;
    float* to = p.partial_o + uint64_t(base + group_head) * kHeadDim +
                half * (kHeadDim / kPairWarps) + (c.lane >> 2);
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d) {
      to[d * 16] = running.o[d][h];
      to[d * 16 + 8] = running.o[d][2 + h];
    }
    if (half == 0 && c.lane < 4)
      p.partial_ml[base + group_head] = make_float2(running.peak[h], running.sum[h]);
  }
}

// Whether the other pair has nothing to store: its part of a sole item, if any, the first pair has.
__device__ __forceinline__ bool OnePairStores(const AttentionGroup& c) {
  return __popc(c.misc.item_rows[c.layer().sliding]) <= 1;
}
// Tells the merge. Where one pair stores it does so by itself: the other is ahead.
__device__ __forceinline__ void SignalItems(const AttentionGroup& c) {
  if (!OnePairStores(c)) {
    c.Signal();
  } else if (InFirstPair(c)) {
    NamedBarrier(1 + kRoles, kPairWarps * 32);
    if (c.tid == kFirstPair * kPairWarps * 32) c.Tell();
  }
}

__device__ __forceinline__ void RunAttention(const AttentionGroup& c, PageRing& ring) {
  const int kind = c.layer().sliding;
  int turn = kFirstPair;
#pragma unroll 1
  for (uint32_t rows = c.misc.item_rows[kind]; rows != 0; rows &= rows - 1) {
    const int row = __ffs(rows) - 1;
    const AttentionItem& item = c.misc.items[kind][row];
    const bool shared = IsShared(item);
    if (shared || turn == c.warp / kPairWarps) {
      AttendItem(c, ring, row, item);
    } else {
      ring.Skip(2 * (item.end - item.begin));
    }
    turn = (turn + !shared) % kPairs;
  }
  SignalItems(c);
}

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
      if (pass == 1) c.WaitTask();
      MergeRows<NT, kMostParts>(c, NT == 1 && pass == 0);
    }
  } else {
    c.WaitTask();
    MergeRows<NT, kLeastParts>(c, false);
  }
}

}  // namespace baton::cuda
