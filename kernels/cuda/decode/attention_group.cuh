// Attention, by warps of its own, beside the experts' stream. Each worker has at most one (kv head,
// split) of a row: an item, the work of a pair of warps. Items go to the pairs in turn, so that
// those of several rows are computed side by side and nothing is ever waited for but pages.
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
           BarrierTest(SmemAddress(&c.misc.rings[kPageRing].full[at.next.slot]), at.next.phase);
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

// A row's softmax so far, of heads 2t and 2t + 1, over the keys of this lane, and their outputs:
// o[d] = dims 16 d + lane / 4 (0, 1) and those 8 later (2, 3).
struct RunningAttention {
  float peak[2] = {kLowest, kLowest}, sum[2] = {};
  float o[kDimTiles][4] = {};

  // Takes a page's scores in and makes them probabilities: weights[m] = P^T as B operand.
  __device__ void Take(float (&s)[kKeyTiles][4], int first_key, LiveKeys live, float scale,
                       uint32_t (&weights)[kKeyTiles][2]) {
    float top[2] = {peak[0], peak[1]};
#pragma unroll
    for (int m = 0; m < kKeyTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[m][i] = live.Has(first_key + 16 * m + (i >> 1) * 8) ? s[m][i] * scale : -INFINITY;
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

__device__ __forceinline__ void AttendItem(const AttentionGroup& c, PageRing& ring, int row,
                                           const AttentionItem& item) {
  const DecodeParams& p = c.p;
  const int half = c.warp % kPairWarps;
  uint32_t q[kHeadSteps][2];
  LoadQueries(c, row, item.head, q);
  c.Trace(1);
  RunningAttention running;
#pragma unroll 1
  for (int page = item.begin; page < item.end; ++page) {
    float s[kKeyTiles][4];
    uint32_t weights[kKeyTiles][2];
    ScoreKeys(q, SmemAddress(ring.Acquire()), c.lane, s);
    ring.Release();
    const LiveKeys live{item.low, c.misc.position[row]};
    running.Take(s, page * kPageKeys + (c.lane >> 2), live, p.attention_scale * kLog2e, weights);
    char* values = ring.Acquire();
    if (!live.HasAll(page)) ClearDeadValues(values, page, live, c.lane);
    running.AddValues(SmemAddress(values) + half * (kTokenBytes / kPairWarps), c.lane, weights);
    ring.Release();
  }
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

__device__ __forceinline__ void RunAttention(const AttentionGroup& c, PageRing& ring) {
  const int kind = c.layer().sliding;
  int turn = 1;  // Routing's list is made by warp 0.
#pragma unroll 1
  for (uint32_t rows = c.misc.item_rows[kind]; rows != 0; rows &= rows - 1) {
    const int row = __ffs(rows) - 1;
    const AttentionItem& item = c.misc.items[kind][row];
    if (turn == c.warp / kPairWarps) {
      AttendItem(c, ring, row, item);
    } else {
      ring.Skip(2 * (item.end - item.begin));
    }
    turn = (turn + 1) % kPairs;
  }
}

// A running softmax-weighted sum of four dimensions.
struct MergedPart {
  float peak = kLowest, sum = 0.0f;
  float4 o = make_float4(0, 0, 0, 0);
  __device__ void Add(float other_peak, float other_sum, float4 v) {
    const float both = fmaxf(peak, other_peak);
    const float mine = Exp2(peak - both), theirs = Exp2(other_peak - both);
    sum = sum * mine + other_sum * theirs;
    o = make_float4(o.x * mine + v.x * theirs, o.y * mine + v.y * theirs, o.z * mine + v.z * theirs,
                    o.w * mine + v.w * theirs);
    peak = both;
  }
};

// Four dimensions of the step's own query and key of a row's query head in every lane, and of its
// value those that the lane merges.
struct OwnKey {
  ulonglong2 q, k, v;
  __device__ void Load(const AttentionGroup& c, int row, int query_head, int dim) {
    const DecodeParams& p = c.p;
    const int half = p.kv_width / 2;
    q = LoadRelaxedPair(p.q + uint64_t(row) * (p.q_width / 2) + query_head * (kHeadDim / 2) +
                        c.lane * 2);
    const uint64_t* own =
        p.new_kv + uint64_t(row) * 2 * half + query_head / p.group_heads * (kHeadDim / 2);
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
  __device__ MergedPart Part(const AttentionGroup& c) const {
    float score = Product(q.x, k.x) + Product(q.y, k.y);
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) score += __shfl_xor_sync(~0u, score, offset);
    MergedPart part;
    part.Add(score * c.p.attention_scale * kLog2e, 1.0f,
             make_float4(LowFloat(uint32_t(v.x)), HighFloat(uint32_t(v.x)), LowFloat(uint32_t(v.y)),
                         HighFloat(uint32_t(v.y))));
    return part;
  }
};

// An eighth of the dimensions of a (row, query head), by one warp: four lanes a split, four
// dimensions a lane. The eight groups of lanes take splits in turn, then add up in their order.
inline constexpr int kMergeParts = 8;
template <int NT>
__device__ __forceinline__ void MergePart(const AttentionGroup& c, int row, int query_head,
                                          int of_head) {
  const DecodeParams& p = c.p;
  const int head = query_head / p.group_heads, group_head = query_head % p.group_heads;
  const int turn = c.lane >> 2, dim = of_head * (kHeadDim / kMergeParts) + (c.lane & 3) * 4;
  const int splits = c.misc.splits[c.layer().sliding][row];
  const uint64_t base =
      (uint64_t(row) * p.kv_heads + head) * p.max_splits * p.group_heads + group_head;
  const uint32_t epoch = c.Epoch(c.task().layer);
  MergedPart part;
  constexpr int kTurns = 8, kAhead = 5;
#pragma unroll 1
  for (int first = 0; first == 0 || first < splits; first += kTurns * kAhead) {
    OwnKey own;
    float2 ml[kAhead];
    float4 o[kAhead];
    own.Load(c, row, query_head, dim);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int split = min(first + i * kTurns + turn, splits - 1);
      const uint64_t at = base + max(split, 0) * p.group_heads;
      ml[i] = LoadRelaxed2(p.partial_ml + at);
      o[i] = LoadRelaxed4(p.partial_o + at * kHeadDim + dim);
    }
    if (first == 0) {
      if (!__all_sync(~0u, own.Arrived(epoch))) {
        c.WaitPackets(c.task().waits[0].counter, [&] {
          own.Load(c, row, query_head, dim);
          return own.Arrived(epoch);
        });
      }
      const MergedPart of = own.Part(c);
      if (turn == 0) part = of;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (first + i * kTurns + turn < splits) part.Add(ml[i].x, ml[i].y, o[i]);
  }
#pragma unroll
  for (int offset = 4; offset <= 16; offset <<= 1) {
    MergedPart other;
    other.peak = __shfl_xor_sync(~0u, part.peak, offset);
    other.sum = __shfl_xor_sync(~0u, part.sum, offset);
    other.o.x = __shfl_xor_sync(~0u, part.o.x, offset);
    other.o.y = __shfl_xor_sync(~0u, part.o.y, offset);
    other.o.z = __shfl_xor_sync(~0u, part.o.z, offset);
    other.o.w = __shfl_xor_sync(~0u, part.o.w, offset);
    if (c.lane & offset) {
      other.Add(part.peak, part.sum, part.o);
      part = other;
    } else {
      part.Add(other.peak, other.sum, other.o);
    }
  }
  if (turn != 0 || c.Lost()) return;
  const uint32_t first = PackBf16(part.o.x / part.sum, part.o.y / part.sum),
                 second = PackBf16(part.o.z / part.sum, part.o.w / part.sum);
  const int k = query_head * kHeadDim + dim, steps = p.q_width / 16;
  if (SoleRowPackets<NT>(p, c.misc)) {
    StorePacket(p.attention_row + PacketOffset(steps, row, k), first, epoch);
    StorePacket(p.attention_row + PacketOffset(steps, row, k + 2), second, epoch);
  } else {
    *reinterpret_cast<uint32_t*>(p.attention + FragmentOffset(steps, row, k)) = first;
    *reinterpret_cast<uint32_t*>(p.attention + FragmentOffset(steps, row, k + 2)) = second;
  }
}

// Parts go to workers in turn, then to their warps.
template <int NT>
__device__ __forceinline__ void RunAttentionMerge(const AttentionGroup& c) {
  const DecodeParams& p = c.p;
  c.WaitTask();
  const int places = kAttentionWarps * p.worker_count, parts = kMergeParts * p.query_heads;
  int at = c.worker + c.warp * p.worker_count;  // This warp's place among those of the row.
#pragma unroll 1
  for (int row = 0; row < p.row_limit; ++row) {
    if (c.RowActive(row)) {
#pragma unroll 1
      for (int of = at; of < parts; of += places)
        MergePart<NT>(c, row, of / kMergeParts, of % kMergeParts);
    }
    // The next row's parts go on where this one's end.
    for (at -= parts; at < 0;) at += places;
  }
}

}  // namespace baton::cuda
