// The routing warp: once a layer, waits for the router's logits, selects every row's experts and
// lays out the layer's active list in shared memory. Every worker does this for itself from the
// same logits, so all agree without a hop.
#pragma once

#include "kernels/cuda/decode/waits.cuh"

namespace baton::cuda {

inline constexpr int kExpertsPerLane = 8;  // Up to 256 experts.
inline constexpr int kMaxTopK = 16;

// Orders like the value; a bf16 value's upper 16 bits.
__device__ __forceinline__ uint32_t SortableBf16(float value) {
  const uint32_t bits = __float_as_uint(value);
  return ((bits & 0x80000000u) ? ~bits : bits | 0x80000000u) >> 16;
}

__device__ __forceinline__ uint32_t HashMix(uint32_t a, uint32_t b) {
  uint32_t h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
  h ^= h >> 15;
  h *= 0xc2b2ae35u;
  h ^= h >> 13;
  h *= 0x27d4eb2fu;
  return h ^ h >> 16;
}

// Weights of the selected experts (lane i < k holds the i-th logit): Hugging Face's rounding, bf16.
__device__ __forceinline__ float RoutingWeight(const DecodeParams& p, float logit, int lane) {
  const int k = p.experts_per_token;
  float weight;
  if (p.router_softmax) {
    float peak = lane < k ? logit : -INFINITY;
    for (int offset = 16; offset > 0; offset >>= 1)
      peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, offset));
    const float e = lane < k ? expf(logit - peak) : 0.0f;
    float sum = e;
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
    weight = e / sum;
  } else {
    weight = RoundBf16(1.0f / (1.0f + expf(-logit)));
    if (p.norm_topk) {
      float sum = lane < k ? weight : 0.0f;
      for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
      weight /= RoundBf16(sum);
    }
  }
  return RoundBf16(weight);
}

template <int NT>
__device__ void SelectExperts(const DecodeParams& p, const Smem& smem, const LayerDevice& layer,
                              int layer_index, int row, int lane) {
  const float* logits =
      p.router_logits + (layer_index % 3) * p.router_copy + uint64_t(row) * p.expert_limit;
  uint32_t key[kExpertsPerLane];
  float value[kExpertsPerLane];
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane + 32 * i;
    key[i] = 0;
    value[i] = 0.0f;
    if (expert >= layer.expert_count) continue;
    value[i] = LoadRelaxedFloat(logits + expert);
    key[i] = SortableBf16(value[i]) << 16 | (0xffffu - expert);
    if (p.forced_experts > 0) {
      const bool pooled = (expert * 5 + layer_index * 37) % layer.expert_count < p.forced_experts;
      const uint32_t hash = HashMix(HashMix(p.step, layer_index), row * 1024 + expert);
      key[i] = pooled ? (hash | 0x10000u) & 0xffff0000u | (0xffffu - expert) : 0xffffu - expert;
    }
  }
  float chosen_logit = 0.0f;
  int chosen = 0;
  for (int k = 0; k < p.experts_per_token; ++k) {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) best = max(best, key[i]);
    best = __reduce_max_sync(~0u, best);
    const int expert = 0xffff - (best & 0xffffu);
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (key[i] == best) {
        logit = value[i];
        key[i] = 0;
      }
    }
    logit = __shfl_sync(~0u, logit, expert & 31);
    if (lane == k) {
      chosen = expert;
      chosen_logit = logit;
    }
  }
  const float weight = RoutingWeight(p, chosen_logit, lane);
  if (lane < p.experts_per_token) {
    atomicOr(smem.row_mask() + chosen, 1u << row);
    smem.score()[chosen * 8 * NT + row] = FloatToBf16Bits(weight);
  }
}

template <int NT>
__device__ void RunRouting(const DecodeParams& p, const Smem& smem, int worker, int lane) {
  ControlSmem& misc = smem.misc();
  uint32_t active_experts = 0;
  for (int l = 0; l < p.layer_count; ++l) {
    const LayerDevice& layer = p.layers[l];
    if (lane == 0) {
      const WaitContext at{uint32_t(worker), ~0u, uint32_t(OpKind::kRouter), uint32_t(l)};
      WaitCounter(p, misc, at, layer.routing_counter, layer.routing_producers * p.step);
      FenceGpu();
    }
    __syncwarp();
    for (int e = lane; e < layer.expert_count; e += 32) smem.row_mask()[e] = 0;
    __syncwarp();
    if (layer.expert_count > 0) {
      for (int row = 0; row < p.row_limit; ++row) {
        if (misc.active_rows >> row & 1) SelectExperts<NT>(p, smem, layer, l, row, lane);
      }
    }
    __syncwarp();
    int count = 0;
    for (int first = 0; first < layer.expert_count; first += 32) {
      const int e = first + lane;
      const bool active = e < layer.expert_count && smem.row_mask()[e] != 0;
      const uint32_t ballot = __ballot_sync(~0u, active);
      if (active) smem.active_id()[count + __popc(ballot & ((1u << lane) - 1))] = e;
      count += __popc(ballot);
    }
    active_experts += count;
    if (lane == 0) {
      misc.active_count = count;
      misc.expert_sum = active_experts;
    }
    __syncwarp();
    if (lane == 0) BarrierArrive(SmemAddress(&misc.routing));
  }
  if (lane == 0) p.stats[worker].active_experts += active_experts;
}

}  // namespace baton::cuda
