// Consumer ops of attention. Each worker has at most one (kv head, split) of a row.
//
// Pages come in groups of up to four: first their keys, then their values. A warp scores 8 of every
// page's 64 keys: S [heads, keys] = Q K^T with the group's query heads as rows of the matrix
// instruction (8 of 16 used). The probabilities meet in shared memory, and a warp adds up 16 of the
// 128 dimensions over all keys: O [heads, dims] += P V. Keys before the row's own position come
// from pages through the ring; the step's own key and value come from the QKV task's buffer and are
// added by AttentionMerge.
#pragma once

#include "kernels/cuda/decode/consumer.cuh"

namespace baton::cuda {

inline constexpr float kLowest = -1e30f;  // Maximum of nothing; finite, so that differences are.
inline constexpr float kLog2e = 1.4426950408889634f;

// Scores of this warp's 8 keys of the page in `tile`: s[0], s[1] = keys 2t, 2t + 1 of head lane
// / 4.
__device__ __forceinline__ void ScoreKeys(const uint32_t (&q)[8][2], uint32_t tile, int warp,
                                          int lane, float (&s)[4]) {
  s[0] = s[1] = s[2] = s[3] = 0.0f;
  const int key = warp * 8 + (lane & 7);
#pragma unroll
  for (int u = 0; u < 16; u += 4) {  // Four 16-byte units of d: two k-steps.
    const uint4 k =
        LoadMatrix4(tile + key * (2 * kHeadDim) + (((u + (lane >> 3)) ^ (key & 7)) << 4));
    Mma16(s, make_uint4(q[u / 2][0], 0, q[u / 2][1], 0), make_uint2(k.x, k.y));
    Mma16(s, make_uint4(q[u / 2 + 1][0], 0, q[u / 2 + 1][1], 0), make_uint2(k.z, k.w));
  }
}

// Keeps the keys of [low, position) of a pair of bf16 that belongs to keys `key` and `key + 1`.
__device__ __forceinline__ uint32_t LiveMask(int key, int low, int position) {
  return (key >= low && key < position ? 0xffffu : 0u) |
         (key + 1 >= low && key + 1 < position ? 0xffff0000u : 0u);
}

// o[0..1] += P V for this warp's 16 dimensions and the page's 64 keys. `p` is the page's
// probabilities [8 heads][kStride] bf16; keys outside [low, position) are cleared from V, whose
// unwritten tail may hold anything, NaN too.
__device__ __forceinline__ void AddValues(float (&o)[2][4], const uint16_t* p, int stride,
                                          uint32_t tile, int page, int low, int position, int warp,
                                          int lane) {
  const bool whole = page * 64 >= low && page * 64 + 64 <= position;
  const uint32_t* row = reinterpret_cast<const uint32_t*>(p + (lane >> 2) * stride) + (lane & 3);
#pragma unroll
  for (int block = 0; block < 4; ++block) {  // 16 keys.
    // Matrices: keys 0-7 and 8-15 of dims 0-7, then of dims 8-15.
    const int key = block * 16 + (lane & 7) + (lane >> 3 & 1) * 8;
    const int unit = warp * 2 + (lane >> 4);
    uint4 v = LoadMatrix4Transposed(tile + key * (2 * kHeadDim) + ((unit ^ (key & 7)) << 4));
    if (!whole) {
      const int at = page * 64 + block * 16 + 2 * (lane & 3);
      const uint32_t first = LiveMask(at, low, position), second = LiveMask(at + 8, low, position);
      v = make_uint4(v.x & first, v.y & second, v.z & first, v.w & second);
    }
    const uint4 a = make_uint4(row[block * 8], 0, row[block * 8 + 4], 0);
    Mma16(o[0], a, make_uint2(v.x, v.y));
    Mma16(o[1], a, make_uint2(v.z, v.w));
  }
}

template <int NT>
__device__ void RunAttention(Consumer<NT>& c, const LayerDevice& layer) {
  const DecodeParams& p = c.p;
  constexpr int kStride =
      kPageGroup * 64 + 8;  // Of the probabilities, bf16; rows 16 bytes apart in banks.
  static_assert(kMaxGroup * kStride * 2 <= kConsumerWarps * Consumer<NT>::kBlocks * 512);
  uint16_t* probabilities = reinterpret_cast<uint16_t*>(c.smem.reduce());
  const float scale = p.attention_scale * kLog2e;
  const int group_head = c.lane >> 2, t = c.lane & 3;
  for (int row = 0; row < p.row_limit; ++row) {
    if (!c.RowActive(row)) continue;
    const int position = c.misc.position[row];
    const SplitPlan plan = PlanSplits(p, position, layer.sliding);
    const int index = AttentionIndex(p, c.worker, row, plan.split_count);
    if (index < 0) continue;
    const int head = index % p.kv_heads, split = index / p.kv_heads;
    const int begin = plan.first_page + split * plan.pages_per_split;
    const int end = min(begin + plan.pages_per_split, plan.first_page + plan.page_count);
    uint32_t q[8][2];
    const uint32_t* from =
        reinterpret_cast<const uint32_t*>(p.q + uint64_t(row) * p.q_width +
                                          (head * p.group_heads + group_head) * kHeadDim) +
        t;
#pragma unroll
    for (int s = 0; s < 8; ++s) {
      q[s][0] = group_head < p.group_heads ? LoadRelaxed(from + s * 8) : 0;
      q[s][1] = group_head < p.group_heads ? LoadRelaxed(from + s * 8 + 4) : 0;
    }
    float o[2][4] = {}, peak = kLowest, sum = 0.0f;
    for (int first = begin; first < end; first += kPageGroup) {
      const int pages = min(kPageGroup, end - first);
      float s[kPageGroup][2];
      float top = kLowest;
#pragma unroll
      for (int i = 0; i < kPageGroup; ++i) {
        s[i][0] = s[i][1] = -INFINITY;
        if (i >= pages) continue;
        float scores[4];
        ScoreKeys(q, SmemAddress(c.Acquire(kStaticQueue)), c.warp, c.lane, scores);
        c.Release(kStaticQueue);
        const int key = (first + i) * 64 + c.warp * 8 + 2 * t;
        if (key >= plan.low && key < position) s[i][0] = scores[0] * scale;
        if (key + 1 >= plan.low && key + 1 < position) s[i][1] = scores[1] * scale;
        top = fmaxf(top, fmaxf(s[i][0], s[i][1]));
      }
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      if (t == 0) c.misc.soft_max[c.warp][group_head] = top;
      c.Sync();  // Also: everybody is done with the last group's probabilities.
      top = peak;
#pragma unroll
      for (int w = 0; w < kConsumerWarps; ++w) top = fmaxf(top, c.misc.soft_max[w][group_head]);
      const float shrink = exp2f(peak - top);
      peak = top;
      sum *= shrink;
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        o[b][0] *= shrink;
        o[b][1] *= shrink;
      }
#pragma unroll
      for (int i = 0; i < kPageGroup; ++i) {
        if (i >= pages) continue;
        const float p0 = exp2f(s[i][0] - peak), p1 = exp2f(s[i][1] - peak);
        sum += p0 + p1;
        *reinterpret_cast<uint32_t*>(probabilities + group_head * kStride + i * 64 + c.warp * 8 +
                                     2 * t) = PackBf16(p0, p1);
      }
      c.Sync();
      for (int i = 0; i < pages; ++i) {
        AddValues(o, probabilities + i * 64, kStride, SmemAddress(c.Acquire(kStaticQueue)),
                  first + i, plan.low, position, c.warp, c.lane);
        c.Release(kStaticQueue);
      }
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (t == 0) c.misc.soft_max[c.warp][group_head] = sum;
    c.Sync();
    const uint64_t base =
        ((uint64_t(row) * p.kv_heads + head) * p.max_splits + split) * p.group_heads + group_head;
    if (group_head < p.group_heads) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        *reinterpret_cast<float2*>(p.partial_o + base * kHeadDim + c.warp * 16 + b * 8 + 2 * t) =
            make_float2(o[b][0], o[b][1]);
      }
      if (c.warp == 0 && t == 0) {
        float all = 0.0f;
#pragma unroll
        for (int w = 0; w < kConsumerWarps; ++w) all += c.misc.soft_max[w][group_head];
        *reinterpret_cast<float2*>(p.partial_ml + base * 2) = make_float2(peak, all);
      }
    }
    c.Sync();  // soft_max and the probabilities are free.
  }
  c.Signal();
}

// One (row, query head) a turn for the whole worker: warps take splits in turn, then add up in warp
// order.
template <int NT>
__device__ void RunAttentionMerge(Consumer<NT>& c, const LayerDevice& layer) {
  const DecodeParams& p = c.p;
  float* scratch = c.smem.reduce();  // [warp][128 + 2]
  const int steps = p.q_width / 16;
  for (int item = c.worker; item < p.row_limit * p.query_heads; item += p.worker_count) {
    const int row = item / p.query_heads, query_head = item % p.query_heads;
    if (!c.RowActive(row)) continue;
    const int head = query_head / p.group_heads, group_head = query_head % p.group_heads;
    const SplitPlan plan = PlanSplits(p, c.misc.position[row], layer.sliding);
    float peak = kLowest, sum = 0.0f;
    float4 o = make_float4(0, 0, 0, 0);
    const auto add = [&](float other_peak, float other_sum, float4 v) {
      const float both = fmaxf(peak, other_peak);
      const float mine = exp2f(peak - both), theirs = exp2f(other_peak - both);
      sum = sum * mine + other_sum * theirs;
      o = make_float4(o.x * mine + v.x * theirs, o.y * mine + v.y * theirs,
                      o.z * mine + v.z * theirs, o.w * mine + v.w * theirs);
      peak = both;
    };
    if (c.warp == 0) {  // The step's own key.
      const uint2 q =
          LoadRelaxed2(p.q + uint64_t(row) * p.q_width + query_head * kHeadDim + c.lane * 4);
      const uint16_t* own =
          p.new_kv + uint64_t(row) * 2 * p.kv_width + head * kHeadDim + c.lane * 4;
      const uint2 k = LoadRelaxed2(own), v = LoadRelaxed2(own + p.kv_width);
      float score = LowFloat(q.x) * LowFloat(k.x) + HighFloat(q.x) * HighFloat(k.x) +
                    LowFloat(q.y) * LowFloat(k.y) + HighFloat(q.y) * HighFloat(k.y);
#pragma unroll
      for (int offset = 16; offset > 0; offset >>= 1) score += __shfl_xor_sync(~0u, score, offset);
      add(score * p.attention_scale * kLog2e, 1.0f,
          make_float4(LowFloat(v.x), HighFloat(v.x), LowFloat(v.y), HighFloat(v.y)));
    }
    // Loads of several splits go out together; they are added in split order.
    constexpr int kAhead = 5;
    for (int first = c.warp; first < plan.split_count; first += kAhead * kConsumerWarps) {
      float4 v[kAhead];
      uint2 ml[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int split = first + i * kConsumerWarps;
        if (split >= plan.split_count) continue;
        const uint64_t at =
            ((uint64_t(row) * p.kv_heads + head) * p.max_splits + split) * p.group_heads +
            group_head;
        ml[i] = LoadRelaxed2(p.partial_ml + at * 2);
        v[i] = LoadRelaxed4(p.partial_o + at * kHeadDim + c.lane * 4);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * kConsumerWarps >= plan.split_count) continue;
        add(__uint_as_float(ml[i].x), __uint_as_float(ml[i].y), v[i]);
      }
    }
    c.Sync();
    float* mine = scratch + c.warp * (kHeadDim + 4);
    *reinterpret_cast<float4*>(mine + c.lane * 4) = o;
    if (c.lane == 0) {
      mine[kHeadDim] = peak;
      mine[kHeadDim + 1] = sum;
    }
    c.Sync();
    if (c.tid < kHeadDim / 2) {
      float top = kLowest;
#pragma unroll
      for (int w = 0; w < kConsumerWarps; ++w)
        top = fmaxf(top, scratch[w * (kHeadDim + 4) + kHeadDim]);
      float all = 0.0f, x0 = 0.0f, x1 = 0.0f;
#pragma unroll
      for (int w = 0; w < kConsumerWarps; ++w) {
        const float* from = scratch + w * (kHeadDim + 4);
        const float factor = exp2f(from[kHeadDim] - top);
        all += factor * from[kHeadDim + 1];
        x0 += factor * from[2 * c.tid];
        x1 += factor * from[2 * c.tid + 1];
      }
      const int k = query_head * kHeadDim + 2 * c.tid;
      *reinterpret_cast<uint32_t*>(p.attention + Consumer<NT>::FragmentOffset(steps, row, k)) =
          PackBf16(x0 / all, x1 / all);
    }
  }
  c.Signal();
}

}  // namespace baton::cuda
