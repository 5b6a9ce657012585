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
    return static_cast<int32_t>(LoadShared(c.misc.issued[kPageRing]) - at.taken) > 0 &&
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
    PageCursor& at = At();
    WarpArrive(c.misc.rings[kPageRing].empty[at.next.slot], c.lane == 0);
    if (c.lane == 0) {
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
__device__ __forceinline__ void ClearDeadValues(char* tile, int page, LiveKeys live, int lane,
                                                int half) {
#pragma unroll 1
  for (int key = lane >> 4; key < kPageKeys; key += 2) {
    if (live.Has(page * kPageKeys + key) || (kRacecheck && (lane >> 3 & 1) != half)) continue;
    *reinterpret_cast<uint4*>(tile + key * kTokenBytes + (lane & 15) * 16) = make_uint4(0, 0, 0, 0);
  }
  ProxyFence();  // The slot's next copy comes after these stores.
  __syncwarp();
}

// Items go to pairs in turn, the first to this: routing's list is made by warp 0.
inline constexpr int kFirstPair = 1, kFirstPairThread = kFirstPair * kPairWarps * 32;
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
  WarpArrive(c.misc.rings[kPageRing].empty[last.slot], lane == 0);
  return true;
}

// The task's phases are those of its first item, the first pair's.
__device__ __forceinline__ void TraceItem(const AttentionGroup& c, int row, TracePhase phase) {
  if (kTraced && row == __ffs(c.misc.item_rows[c.layer().sliding]) - 1)
    c.Trace(phase, kFirstPairThread);
}

__device__ __forceinline__ void AttendItem(const AttentionGroup& c, PageRing& ring, int row,
                                           const AttentionItem& item) {
  const DecodeParams& p = c.p;
  const int half = c.warp % kPairWarps;
  uint32_t q[kHeadSteps][2];
  LoadQueries(c, row, item.head, q);
  TraceItem(c, row, kTaskWaited);
  RunningAttention running;
  const bool shared = IsShared(item);
  bool loaded = false;  // For the trace.
#pragma unroll 1
  for (int page = item.begin; page < item.end; ++page) {
    if (shared && !IsOwn(c, item, page)) {
      ring.Skip(2);
      continue;
    }
    float s[kKeyTiles][4];
    uint32_t weights[kKeyTiles][2];
    const char* keys = ring.Acquire();
    if (!loaded) TraceItem(c, row, kTaskLoaded);
    loaded = true;
    ScoreKeys(q, SmemAddress(keys), c.lane, s);
    ring.Release();
    const LiveKeys live{item.low, c.misc.position[row]};
    const bool all = live.HasAll(page);
    running.Take(s, page * kPageKeys + (c.lane >> 2), live, all, p.attention_scale * kLog2e,
                 weights);
    char* values = ring.Acquire();
    if (!all) ClearDeadValues(values, page, live, c.lane, half);
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
    if (c.tid == kFirstPairThread) c.Tell();
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
  c.Trace(kTaskDone, kFirstPairThread);
  SignalItems(c);
  c.Trace(kTaskPublished, kFirstPairThread);
}

}  // namespace baton::cuda
