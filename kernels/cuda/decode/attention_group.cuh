// Attention, by warps of its own, beside the experts' stream. Each worker has at most one (kv head,
// split) of a row.
//
// Page by page: its keys, then its values. A warp scores 16 of the page's 64 keys: S [heads, keys]
// = Q K^T with the group's query heads as rows of the matrix instruction (8 of 16 used). The
// probabilities meet in shared memory, and a warp adds up 32 of the 128 dimensions over all keys:
// O [heads, dims] += P V. Keys before the row's own position come from pages through the ring; the
// step's own key and value come from the QKV task's buffer and are added by AttentionMerge.
//
// The loops stay rolled: code that runs once a layer comes from L2, which is slower than what
// unrolling saves.
#pragma once

#include "kernels/cuda/decode/routing.cuh"

namespace baton::cuda {

inline constexpr float kLowest = -1e30f;  // Maximum of nothing; finite, so that differences are.
inline constexpr float kLog2e = 1.4426950408889634f;
inline constexpr int kKeyBlocks = 64 / kAttentionWarps / 8;        // A warp's keys of a page, by 8.
inline constexpr int kDimBlocks = kHeadDim / kAttentionWarps / 8;  // A warp's dimensions, by 8.

// The attention warps' end of the pages' ring.
struct PageRing {
  const AttentionGroup& c;
  RingPlace next{};

  __device__ uint32_t Acquire() const {
    c.Wait(c.misc.pages.full[next.slot], next.phase, kWaitRing);
    return SmemAddress(c.smem.page_slot(next.slot));
  }
  __device__ void Release() {
    __syncwarp();
    if (c.lane == 0) BarrierArrive(SmemAddress(&c.misc.pages.empty[next.slot]));
    next.Advance(c.p.smem.page_slot_count);
  }
};

// Scores of this warp's keys of the page in `tile`: s[n][0], s[n][1] = keys 8 n + 2t, 2t + 1 of
// head lane / 4.
__device__ __forceinline__ void ScoreKeys(const uint32_t (&q)[8][2], uint32_t tile, int warp,
                                          int lane, float (&s)[kKeyBlocks][2]) {
#pragma unroll
  for (int n = 0; n < kKeyBlocks; ++n) {
    float even[4] = {}, odd[4] = {};
    const int key = (warp * kKeyBlocks + n) * 8 + (lane & 7);
#pragma unroll
    for (int u = 0; u < 16; u += 4) {  // Four 16-byte units of d: two k-steps.
      const uint4 k =
          LoadMatrix4(tile + key * (2 * kHeadDim) + (((u + (lane >> 3)) ^ (key & 7)) << 4));
      Mma16(even, make_uint4(q[u / 2][0], 0, q[u / 2][1], 0), make_uint2(k.x, k.y));
      Mma16(odd, make_uint4(q[u / 2 + 1][0], 0, q[u / 2 + 1][1], 0), make_uint2(k.z, k.w));
    }
    s[n][0] = even[0] + odd[0];
    s[n][1] = even[1] + odd[1];
  }
}

// Keeps the keys of [low, position) of a pair of bf16 that belongs to keys `key` and `key + 1`.
__device__ __forceinline__ uint32_t LiveMask(int key, int low, int position) {
  return (key >= low && key < position ? 0xffffu : 0u) |
         (key + 1 >= low && key + 1 < position ? 0xffff0000u : 0u);
}

// What a row's tiles are masked by.
struct LiveKeys {
  int low, position;
};

// o += P V for this warp's dimensions and the page's 64 keys. `probabilities` is the page's [8
// heads][kProbabilityStride] bf16; keys outside [low, position) are cleared from V, whose unwritten
// tail may hold anything, NaN too.
__device__ __forceinline__ void AddValues(float (&o)[kDimBlocks][4], const uint16_t* probabilities,
                                          uint32_t tile, int page, LiveKeys live, int warp,
                                          int lane) {
  const bool whole = page * 64 >= live.low && page * 64 + 64 <= live.position;
  const uint32_t* row =
      reinterpret_cast<const uint32_t*>(probabilities + (lane >> 2) * kProbabilityStride) +
      (lane & 3);
#pragma unroll 1
  for (int block = 0; block < 4; ++block) {  // 16 keys.
    const uint4 a = make_uint4(row[block * 8], 0, row[block * 8 + 4], 0);
    const int key = block * 16 + (lane & 7) + (lane >> 3 & 1) * 8;
#pragma unroll
    for (int d = 0; d < kDimBlocks; d += 2) {
      // Matrices: keys 0-7 and 8-15 of dims 0-7, then of dims 8-15.
      const int unit = warp * kDimBlocks + d + (lane >> 4);
      uint4 v = LoadMatrix4Transposed(tile + key * (2 * kHeadDim) + ((unit ^ (key & 7)) << 4));
      if (!whole) {
        const int at = page * 64 + block * 16 + 2 * (lane & 3);
        const uint32_t first = LiveMask(at, live.low, live.position),
                       second = LiveMask(at + 8, live.low, live.position);
        v = make_uint4(v.x & first, v.y & second, v.z & first, v.w & second);
      }
      Mma16(o[d], a, make_uint2(v.x, v.y));
      Mma16(o[d + 1], a, make_uint2(v.z, v.w));
    }
  }
}

__device__ __forceinline__ void AttendItem(const AttentionGroup& c, PageRing& ring, int row,
                                           const AttentionItem& item) {
  const DecodeParams& p = c.p;
  const LiveKeys live{item.low, c.misc.position[row]};
  uint16_t* probabilities = reinterpret_cast<uint16_t*>(c.smem.attention());
  const float scale = p.attention_scale * kLog2e;
  const int group_head = c.lane >> 2, t = c.lane & 3;
  uint32_t q[8][2];
  // Heads that the group does not have are copies of its first; they are not stored.
  const int read_head = group_head < p.group_heads ? group_head : 0;
  const uint64_t* from = p.q + uint64_t(row) * (p.q_width / 2) +
                         (item.head * p.group_heads + read_head) * (kHeadDim / 2) + t;
  const uint32_t epoch = c.Epoch(c.task().layer);
  bool polls = false;
  c.WaitPackets(c.task().waits[0].counter, [&] {
    // If they are not there, one packet of every head is polled: all would take bandwidth.
    bool all = !polls || Has(LoadRelaxed64(from), epoch);
    if (!__all_sync(~0u, all)) return false;
    polls = true;
#pragma unroll
    for (int s = 0; s < 8; ++s) {
      const uint64_t low = LoadRelaxed64(from + s * 8), high = LoadRelaxed64(from + s * 8 + 4);
      all &= Has(low, epoch) && Has(high, epoch);
      q[s][0] = uint32_t(low);
      q[s][1] = uint32_t(high);
    }
    return all;
  });
  c.Trace(1);
  float o[kDimBlocks][4] = {}, peak = kLowest, sum = 0.0f;
#pragma unroll 1
  for (int page = item.begin; page < item.end; ++page) {
    float s[kKeyBlocks][2];
    ScoreKeys(q, ring.Acquire(), c.warp, c.lane, s);
    ring.Release();
    float top = kLowest;
#pragma unroll
    for (int n = 0; n < kKeyBlocks; ++n) {
      const int key = page * 64 + (c.warp * kKeyBlocks + n) * 8 + 2 * t;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool seen = key + i >= live.low && key + i < live.position;
        s[n][i] = seen ? s[n][i] * scale : -INFINITY;
        top = fmaxf(top, s[n][i]);
      }
    }
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    if (t == 0) c.misc.soft_max[c.warp][group_head] = top;
    c.Sync();  // Also: everybody is done with the last page's probabilities.
    top = peak;
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) top = fmaxf(top, c.misc.soft_max[w][group_head]);
    const float shrink = exp2f(peak - top);
    peak = top;
    sum *= shrink;
#pragma unroll
    for (int b = 0; b < kDimBlocks; ++b) {
      o[b][0] *= shrink;
      o[b][1] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < kKeyBlocks; ++n) {
      const float p0 = exp2f(s[n][0] - peak), p1 = exp2f(s[n][1] - peak);
      sum += p0 + p1;
      *reinterpret_cast<uint32_t*>(probabilities + group_head * kProbabilityStride +
                                   (c.warp * kKeyBlocks + n) * 8 + 2 * t) = PackBf16(p0, p1);
    }
    c.Sync();
    AddValues(o, probabilities, ring.Acquire(), page, live, c.warp, c.lane);
    ring.Release();
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (t == 0) c.misc.soft_max[c.warp][group_head] = sum;
  c.Sync();
  const uint64_t base =
      ((uint64_t(row) * p.kv_heads + item.head) * p.max_splits + item.split) * p.group_heads +
      group_head;
  if (group_head < p.group_heads && !c.Lost()) {
#pragma unroll
    for (int b = 0; b < kDimBlocks; ++b) {
      StorePacketPair(p.partial_o + base * kHeadDim + (c.warp * kDimBlocks + b) * 8 + 2 * t,
                      __float_as_uint(o[b][0]), __float_as_uint(o[b][1]), epoch);
    }
    if (c.warp == 0 && t == 0) {
      float all = 0.0f;
#pragma unroll
      for (int w = 0; w < kAttentionWarps; ++w) all += c.misc.soft_max[w][group_head];
      StorePacketPair(p.partial_ml + base * 2, __float_as_uint(peak), __float_as_uint(all), epoch);
    }
  }
  c.Sync();  // soft_max and the probabilities are free.
}

__device__ __forceinline__ void RunAttention(const AttentionGroup& c, PageRing& ring) {
  const int kind = c.layer().sliding;
#pragma unroll 1
  for (uint32_t rows = c.misc.item_rows[kind]; rows != 0; rows &= rows - 1) {
    const int row = __ffs(rows) - 1;
    AttendItem(c, ring, row, c.misc.items[kind][row]);
  }
}

// A running softmax-weighted sum of four dimensions.
struct MergedPart {
  float peak = kLowest, sum = 0.0f;
  float4 o = make_float4(0, 0, 0, 0);
  __device__ void Add(float other_peak, float other_sum, float4 v) {
    const float both = fmaxf(peak, other_peak);
    const float mine = exp2f(peak - both), theirs = exp2f(other_peak - both);
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
  {
    OwnKey own;
    c.WaitPackets(c.task().waits[0].counter, [&] {
      own.Load(c, row, query_head, dim);
      return own.Arrived(epoch);
    });
    const MergedPart of = own.Part(c);
    if (turn == 0) part = of;
  }
  constexpr int kTurns = 8, kAhead = 3;
  const int stride = kTurns * p.group_heads;  // Of a group's splits, in heads.
  const uint64_t* sums = p.partial_ml + (base + turn * p.group_heads) * 2;
  const uint64_t* values = p.partial_o + (base + turn * p.group_heads) * kHeadDim + dim;
#pragma unroll 1
  for (int left = splits - turn; left + turn > 0; left -= kTurns * kAhead) {
    ulonglong2 low[kAhead], high[kAhead], ml[kAhead];
    c.WaitPackets(c.task().waits[0].counter, [&] {
      bool all = true;
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const bool wanted = i * kTurns < left;
        ml[i] = LoadRelaxedPairIf(wanted, sums + i * stride * 2);
        low[i] = LoadRelaxedPairIf(wanted, values + i * stride * kHeadDim);
        high[i] = LoadRelaxedPairIf(wanted, values + i * stride * kHeadDim + 2);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        all &=
            i * kTurns >= left || (Has(ml[i], epoch) && Has(low[i], epoch) && Has(high[i], epoch));
      }
      return all;
    });
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i * kTurns >= left) continue;
      const auto value = [](uint64_t packet) { return __uint_as_float(uint32_t(packet)); };
      part.Add(value(ml[i].x), value(ml[i].y),
               make_float4(value(low[i].x), value(low[i].y), value(high[i].x), value(high[i].y)));
    }
    sums += kAhead * stride * 2;
    values += kAhead * stride * kHeadDim;
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
  if (NT == 1) {
    StorePacket(p.attention + PacketOffset(steps, row, k), first, epoch);
    StorePacket(p.attention + PacketOffset(steps, row, k + 2), second, epoch);
  } else {
    *reinterpret_cast<uint32_t*>(p.attention + FragmentOffset(steps, row, k)) = first;
    *reinterpret_cast<uint32_t*>(p.attention + FragmentOffset(steps, row, k + 2)) = second;
  }
}

// Parts go to workers in turn, then to their warps.
template <int NT>
__device__ __forceinline__ void RunAttentionMerge(const AttentionGroup& c) {
  const DecodeParams& p = c.p;
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
