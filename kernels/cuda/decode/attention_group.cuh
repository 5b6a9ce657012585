// Attention, by warps of its own, beside the experts' stream. Each worker has at most one (kv head,
// split) of a row.
//
// Pages come in groups of up to four: first their keys, then their values. A warp scores 16 of
// every page's 64 keys: S [heads, keys] = Q K^T with the group's query heads as rows of the matrix
// instruction (8 of 16 used). The probabilities meet in shared memory, and a warp adds up 32 of the
// 128 dimensions over all keys: O [heads, dims] += P V. Keys before the row's own position come
// from pages through the ring; the step's own key and value come from the QKV task's buffer and are
// added by AttentionMerge.
#pragma once

#include "kernels/cuda/decode/routing.cuh"

namespace baton::cuda {

inline constexpr float kLowest = -1e30f;  // Maximum of nothing; finite, so that differences are.
inline constexpr float kLog2e = 1.4426950408889634f;
inline constexpr int kKeyBlocks = 64 / kAttentionWarps / 8;        // A warp's keys of a page, by 8.
inline constexpr int kDimBlocks = kHeadDim / kAttentionWarps / 8;  // A warp's dimensions, by 8.

// The attention warps' side of the KV queue.
struct KvChunks {
  const AttentionGroup& c;
  uint32_t taken = 0;

  __device__ uint32_t Acquire() const {
    const uint32_t entry = taken & 15;
    const uint32_t barrier = SmemAddress(&c.misc.full[kKvQueue][entry]);
    if (!BarrierTest(barrier, taken >> 4 & 1))
      WaitBarrier(c.p, c.misc, c.Here(), barrier, taken >> 4 & 1, kWaitRing);
    return SmemAddress(c.smem.slot(*const_cast<volatile uint8_t*>(&c.misc.slot[kKvQueue][entry])));
  }
  __device__ void Release() {
    static_assert(kReleases == 2 * kAttentionWarps);
    __syncwarp();
    if (c.lane == 0) BarrierArriveTwice(SmemAddress(&c.misc.empty[kKvQueue][taken & 15]));
    ++taken;
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
#pragma unroll
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

// One row's (head, split) of this worker.
struct AttentionItem {
  int row, head, split;
  int begin, end;  // Pages.
  LiveKeys live;
};

__device__ __forceinline__ void AttendItem(const AttentionGroup& c, KvChunks& chunks,
                                           const AttentionItem& item) {
  const DecodeParams& p = c.p;
  uint16_t* probabilities = reinterpret_cast<uint16_t*>(c.smem.attention());
  const float scale = p.attention_scale * kLog2e;
  const int group_head = c.lane >> 2, t = c.lane & 3;
  uint32_t q[8][2];
  // Heads that the group does not have are copies of its first; they are not stored.
  const int read_head = group_head < p.group_heads ? group_head : 0;
  const uint32_t* from =
      reinterpret_cast<const uint32_t*>(p.q + uint64_t(item.row) * p.q_width +
                                        (item.head * p.group_heads + read_head) * kHeadDim) +
      t;
#pragma unroll
  for (int s = 0; s < 8; ++s) {
    q[s][0] = LoadRelaxed(from + s * 8);
    q[s][1] = LoadRelaxed(from + s * 8 + 4);
  }
  float o[kDimBlocks][4] = {}, peak = kLowest, sum = 0.0f;
#pragma unroll 1
  for (int first = item.begin; first < item.end; first += kPageGroup) {
    const int pages = min(kPageGroup, item.end - first);
    float s[kPageGroup][kKeyBlocks][2];
    float top = kLowest;
#pragma unroll
    for (int i = 0; i < kPageGroup; ++i) {
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) s[i][n][0] = s[i][n][1] = -INFINITY;
      if (i >= pages) continue;
      float scores[kKeyBlocks][2];
      ScoreKeys(q, chunks.Acquire(), c.warp, c.lane, scores);
      chunks.Release();
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
        const int key = (first + i) * 64 + (c.warp * kKeyBlocks + n) * 8 + 2 * t;
        if (key >= item.live.low && key < item.live.position) s[i][n][0] = scores[n][0] * scale;
        if (key + 1 >= item.live.low && key + 1 < item.live.position)
          s[i][n][1] = scores[n][1] * scale;
        top = fmaxf(top, fmaxf(s[i][n][0], s[i][n][1]));
      }
    }
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    if (t == 0) c.misc.soft_max[c.warp][group_head] = top;
    c.Sync();  // Also: everybody is done with the last group's probabilities.
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
    for (int i = 0; i < kPageGroup; ++i) {
      if (i >= pages) continue;
#pragma unroll
      for (int n = 0; n < kKeyBlocks; ++n) {
        const float p0 = exp2f(s[i][n][0] - peak), p1 = exp2f(s[i][n][1] - peak);
        sum += p0 + p1;
        *reinterpret_cast<uint32_t*>(probabilities + group_head * kProbabilityStride + i * 64 +
                                     (c.warp * kKeyBlocks + n) * 8 + 2 * t) = PackBf16(p0, p1);
      }
    }
    c.Sync();
#pragma unroll 1
    for (int i = 0; i < pages; ++i) {
      AddValues(o, probabilities + i * 64, chunks.Acquire(), first + i, item.live, c.warp, c.lane);
      chunks.Release();
    }
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (t == 0) c.misc.soft_max[c.warp][group_head] = sum;
  c.Sync();
  const uint64_t base =
      ((uint64_t(item.row) * p.kv_heads + item.head) * p.max_splits + item.split) * p.group_heads +
      group_head;
  if (group_head < p.group_heads) {
#pragma unroll
    for (int b = 0; b < kDimBlocks; ++b) {
      *reinterpret_cast<float2*>(p.partial_o + base * kHeadDim + (c.warp * kDimBlocks + b) * 8 +
                                 2 * t) = make_float2(o[b][0], o[b][1]);
    }
    if (c.warp == 0 && t == 0) {
      float all = 0.0f;
#pragma unroll
      for (int w = 0; w < kAttentionWarps; ++w) all += c.misc.soft_max[w][group_head];
      *reinterpret_cast<float2*>(p.partial_ml + base * 2) = make_float2(peak, all);
    }
  }
  c.Sync();  // soft_max and the probabilities are free.
}

__device__ __forceinline__ void RunAttention(const AttentionGroup& c, KvChunks& chunks) {
  const DecodeParams& p = c.p;
  for (int row = 0; row < p.row_limit; ++row) {
    if (!c.RowActive(row)) continue;
    const int position = c.misc.position[row];
    const SplitPlan plan = PlanSplits(p, position, c.layer().sliding);
    const int index = AttentionIndex(p, c.worker, row, plan.split_count);
    if (index < 0) continue;
    const int split = index / p.kv_heads;
    const int begin = plan.first_page + split * plan.pages_per_split;
    AttendItem(c, chunks,
               {.row = row,
                .head = index % p.kv_heads,
                .split = split,
                .begin = begin,
                .end = min(begin + plan.pages_per_split, plan.first_page + plan.page_count),
                .live = {plan.low, position}});
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

// The step's own query, key and value of a row's query head, four dimensions a lane.
struct OwnKey {
  uint2 q, k, v;
  __device__ void Load(const AttentionGroup& c, int row, int query_head) {
    const DecodeParams& p = c.p;
    const int head = query_head / p.group_heads;
    q = LoadRelaxed2(p.q + uint64_t(row) * p.q_width + query_head * kHeadDim + c.lane * 4);
    const uint16_t* own = p.new_kv + uint64_t(row) * 2 * p.kv_width + head * kHeadDim + c.lane * 4;
    k = LoadRelaxed2(own);
    v = LoadRelaxed2(own + p.kv_width);
  }
  __device__ void AddTo(const AttentionGroup& c, MergedPart& part) const {
    float score = LowFloat(q.x) * LowFloat(k.x) + HighFloat(q.x) * HighFloat(k.x) +
                  LowFloat(q.y) * LowFloat(k.y) + HighFloat(q.y) * HighFloat(k.y);
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) score += __shfl_xor_sync(~0u, score, offset);
    part.Add(score * c.p.attention_scale * kLog2e, 1.0f,
             make_float4(LowFloat(v.x), HighFloat(v.x), LowFloat(v.y), HighFloat(v.y)));
  }
};

// One (row, query head) a turn for the whole group: warps take splits in turn, then add up in warp
// order.
__device__ __forceinline__ void RunAttentionMerge(const AttentionGroup& c) {
  const DecodeParams& p = c.p;
  constexpr int kStride = kHeadDim + 4;
  static_assert(kAttentionWarps * kStride * 4 <= kAttentionScratch);
  float* scratch = reinterpret_cast<float*>(c.smem.attention());  // [warp][128 + 4]
  for (int item = c.worker; item < p.row_limit * p.query_heads; item += p.worker_count) {
    const int row = item / p.query_heads, query_head = item % p.query_heads;
    if (!c.RowActive(row)) continue;
    const int head = query_head / p.group_heads, group_head = query_head % p.group_heads;
    const SplitPlan plan = PlanSplits(p, c.misc.position[row], c.layer().sliding);
    MergedPart part;
    OwnKey own;
    if (c.warp == 0) own.Load(c, row, query_head);
    if (c.warp == 0 && plan.split_count == 0) own.AddTo(c, part);
    // All loads of up to 36 splits go out together, the own key's too; they are added in order.
    constexpr int kAhead = 9;
    const uint64_t base =
        (uint64_t(row) * p.kv_heads + head) * p.max_splits * p.group_heads + group_head;
    const float* from = p.partial_o + base * kHeadDim + c.lane * 4;
    const float* from_ml = p.partial_ml + base * 2;
#pragma unroll 1
    for (int first = c.warp; first < plan.split_count; first += kAhead * kAttentionWarps) {
      float4 v[kAhead];
      uint2 ml[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        // Past the end: the last one again, not added.
        const int split = min(first + i * kAttentionWarps, plan.split_count - 1);
        ml[i] = LoadRelaxed2(from_ml + split * p.group_heads * 2);
        v[i] = LoadRelaxed4(from + split * p.group_heads * kHeadDim);
      }
      if (first == 0) own.AddTo(c, part);  // Warp 0's first turn.
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * kAttentionWarps >= plan.split_count) continue;
        part.Add(__uint_as_float(ml[i].x), __uint_as_float(ml[i].y), v[i]);
      }
    }
    c.Sync();
    float* mine = scratch + c.warp * kStride;
    *reinterpret_cast<float4*>(mine + c.lane * 4) = part.o;
    if (c.lane == 0) {
      mine[kHeadDim] = part.peak;
      mine[kHeadDim + 1] = part.sum;
    }
    c.Sync();
    if (c.tid >= kHeadDim / 2) continue;
    float top = kLowest;
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) top = fmaxf(top, scratch[w * kStride + kHeadDim]);
    float all = 0.0f, x0 = 0.0f, x1 = 0.0f;
#pragma unroll
    for (int w = 0; w < kAttentionWarps; ++w) {
      const float* of = scratch + w * kStride;
      const float factor = exp2f(of[kHeadDim] - top);
      all += factor * of[kHeadDim + 1];
      x0 += factor * of[2 * c.tid];
      x1 += factor * of[2 * c.tid + 1];
    }
    *reinterpret_cast<uint32_t*>(
        p.attention + FragmentOffset(p.q_width / 16, row, query_head * kHeadDim + 2 * c.tid)) =
        PackBf16(x0 / all, x1 / all);
  }
}

}  // namespace baton::cuda
