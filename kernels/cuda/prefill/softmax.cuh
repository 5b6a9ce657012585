// What the two attention kernels share: which keys a tile visits, masking, and the running softmax
// over accumulator fragments (fragment layout: wgmma.cuh). Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/prefill/chunk_plan.h"
#include "kernels/cuda/prefill/ptx.cuh"

namespace baton::prefill {

inline constexpr int kNoWindow = 1 << 30;

// The keys and pages one tile needs.
struct TileRange {
  AttentionTile tile;
  SegmentPages segment;
  int first_block = 0;  // Blocks of keys, aligned to absolute positions.
  int last_block = 0;
  int first_page = 0;  // Logical pages with a visible key.
  int last_page = 0;
  int first_key = 0;       // Visible to the tile's first query.
  int first_full_key = 0;  // From here on visible to all queries of the tile …
  int last_full_key = 0;   // … up to here.
};

template <typename Args>
__device__ __forceinline__ TileRange TileRangeOf(const Args& args, int block_keys) {
  TileRange range;
  range.tile = args.tiles[blockIdx.y];
  range.segment = args.segments[range.tile.segment];
  const int last_query = range.tile.position + range.tile.tokens - 1;
  range.first_key = max(0, range.tile.position - args.window_keys + 1);
  range.first_full_key = max(0, last_query - args.window_keys + 1);
  range.last_full_key = range.tile.position;
  range.first_block = range.first_key / block_keys;
  range.last_block = last_query / block_keys;
  range.first_page = range.first_key / kPageTokens;
  range.last_page = last_query / kPageTokens;
  return range;
}

// The arena page of a segment's logical page.
template <typename Args>
__device__ __forceinline__ int PageId(const Args& args, const SegmentPages& segment, int logical) {
  const int slot = args.window_group ? segment.window_begin + logical % segment.window_ring
                                     : segment.full_begin + logical;
  return static_cast<int>(args.pages[slot]);
}

// Positions of the two rows a thread holds.
struct RowMask {
  int query[2];
  int window_keys;

  __device__ __forceinline__ bool Hides(int key, int half) const {
    return key > query[half] || query[half] - key >= window_keys;
  }
};

struct RowSums {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};  // This thread's columns only.
};

__device__ __forceinline__ float QuadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

__device__ __forceinline__ float QuadSum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

__device__ __forceinline__ float Exp2(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// Turns the raw scores of key block `block` (2 * kCount keys) into
// softmax weights relative to the running maximum; `correction` is what earlier sums and outputs
// must be multiplied by. A block without a visible key leaves everything as it was.
template <int kCount>
__device__ __forceinline__ void SoftmaxBlock(float (&scores)[kCount], RowSums& sums,
                                             float (&correction)[2], const RowMask& mask,
                                             const TileRange& range, int block, float scale_log2) {
  constexpr int kBlockKeys = 2 * kCount;
  const int first = block * kBlockKeys;
  if (first < range.first_full_key || first + kBlockKeys - 1 > range.last_full_key) {
    const int column = first + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (mask.Hides(column + 8 * (i >> 2) + (i & 1), (i >> 1) & 1)) scores[i] = -INFINITY;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float max = sums.max[half];
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      max = fmaxf(max, fmaxf(scores[i + 2 * half], scores[i + 2 * half + 1]));
    }
    max = QuadMax(max);
    const float base = max == -INFINITY ? 0.0f : max * scale_log2;
    // Exactly 1 where the maximum stays: the product's rounding error would not be 0, and a tile
    // that goes on beyond a row's keys must not change the row.
    correction[half] = max == sums.max[half] ? 1.0f : Exp2(fmaf(sums.max[half], scale_log2, -base));
    sums.max[half] = max;
    float sum = sums.sum[half] * correction[half];
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      float& first_score = scores[i + 2 * half];
      float& second_score = scores[i + 2 * half + 1];
      first_score = Exp2(fmaf(first_score, scale_log2, -base));
      second_score = Exp2(fmaf(second_score, scale_log2, -base));
      sum += first_score + second_score;
    }
    sums.sum[half] = sum;
  }
}

}  // namespace baton::prefill
