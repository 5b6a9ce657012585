// The order in which experts are chosen, one definition for every kernel that routes decode rows:
// by bf16 router logit, or drawn by a hash for benchmarks, so that two kernels draw the same.
#pragma once

#include <cstdint>

namespace baton::cuda {

__device__ __forceinline__ uint32_t HashMix(uint32_t a, uint32_t b) {
  uint32_t h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
  h ^= h >> 15;
  h *= 0xc2b2ae35u;
  h ^= h >> 13;
  h *= 0x27d4eb2fu;
  return h ^ h >> 16;
}

// The larger key is chosen first; its low half tells the expert.
__device__ __forceinline__ int ExpertOfKey(uint32_t key) {
  return 0xffff - static_cast<int>(key & 0xffffu);
}
// Of a logit's bf16 bits: the larger logit first, then the lower id; -0 equals +0.
__device__ __forceinline__ uint32_t ExpertKey(uint32_t logit, int expert) {
  const uint32_t bits = logit == 0x8000 ? 0 : logit;
  const uint32_t ordered = (bits & 0x8000 ? ~bits : bits | 0x8000) & 0xffff;
  return ordered << 16 | (0xffffu - static_cast<uint32_t>(expert));
}

// What a drawn choice depends on besides the expert.
struct ExpertDraw {
  uint32_t step;
  int layer, row;
  int expert_count;
  int pool;  // Uniformly from this many of the layer's experts.
};
__device__ __forceinline__ uint32_t DrawnExpertKey(const ExpertDraw& draw, int expert) {
  const bool pooled = (expert * 5 + draw.layer * 37) % draw.expert_count < draw.pool;
  const uint32_t hash = HashMix(HashMix(draw.step, draw.layer), draw.row * 1024 + expert);
  return (pooled ? (hash | 0x10000u) & 0xffff0000u : 0u) | (0xffffu - uint32_t(expert));
}

}  // namespace baton::cuda
