// Routing, by the attention warps: once a layer, they wait for the router's logits, select every
// row's experts and lay out the layer's active list in shared memory. Every worker does this for
// itself from the same logits, so all agree without a hop.
#pragma once

#include "kernels/cuda/decode/worker_group.cuh"

namespace baton::cuda {

using AttentionGroup = WorkerGroup<kAttentionRole, kAttentionThreads>;

inline constexpr int kExpertsPerLane = 8;  // Up to 256 experts.
inline constexpr int kMaxTopK = 16;

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

// The row's router logits, expert lane + 32 i in value[i]; waits for their packets if `waits`.
__device__ __forceinline__ void LoadLogits(const AttentionGroup& c, int row, bool waits,
                                           float (&value)[kExpertsPerLane]) {
  const DecodeParams& p = c.p;
  const int count = c.layer().expert_count;
  const uint64_t* packets =
      p.router_logits + c.task().buffer_epoch * p.router_copy + uint64_t(row) * p.expert_limit;
  const uint32_t epoch = c.Epoch(c.task().layer);
  c.WaitPackets(c.layer().routing_counter, [&] {
    bool all = true;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      value[i] = 0.0f;
      const int expert = c.lane + 32 * i;
      if (expert >= count) continue;
      const uint64_t packet = LoadRelaxed64(packets + expert);
      all &= Has(packet, epoch);
      value[i] = __uint_as_float(uint32_t(packet));
    }
    return all || !waits;
  });
}

// What a row chose: lane i < k holds its i-th expert and that one's weight.
struct Choice {
  int expert = 0;
  float weight = 0.0f;
};
// With `rehearse` all of it is done once before, on whatever the logits were: the code, which else
// would come from L2 while every worker waits for it, is near when the logits are there.
__device__ __forceinline__ Choice SelectExperts(const AttentionGroup& c, int row, bool rehearse) {
  const DecodeParams& p = c.p;
  const int lane = c.lane;
  const LayerDevice& layer = c.layer();
  const ExpertDraw draw{p.step, c.task().layer, row, layer.expert_count, p.forced_experts};
  Choice choice;
#pragma unroll 1
  for (int pass = rehearse ? 0 : 1; pass < 2; ++pass) {
    uint32_t key[kExpertsPerLane];
    float value[kExpertsPerLane];
    LoadLogits(c, row, pass == 1, value);
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      const int expert = lane + 32 * i;
      key[i] = 0;
      if (expert >= layer.expert_count) continue;
      key[i] = draw.pool > 0 ? DrawnExpertKey(draw, expert)
                             : ExpertKey(__float_as_uint(value[i]) >> 16, expert);
    }
    float chosen_logit = 0.0f;
#pragma unroll 1
    for (int k = 0; k < p.experts_per_token; ++k) {
      uint32_t best = 0;
#pragma unroll
      for (int i = 0; i < kExpertsPerLane; ++i) best = max(best, key[i]);
      best = __reduce_max_sync(~0u, best);
      const int expert = ExpertOfKey(best);
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
        choice.expert = expert;
        chosen_logit = logit;
      }
    }
    choice.weight = RoutingWeight(p, chosen_logit, lane);
  }
  return choice;
}

// Of the current task's layer; once a layer, in layer order.
template <int NT>
__device__ void RunRouting(AttentionGroup& c) {
  const DecodeParams& p = c.p;
  const LayerDevice& layer = c.layer();
  // The last layer's list may go once its Down is done everywhere, as x of this layer tells.
  if (layer.expert_count == 0 || c.misc.active_rows == 0) {
    if (c.tid == 0) c.WaitFor(layer.routing_counter, layer.routing_producers);
    c.Sync();
  } else {
    bool cleared = false;
#pragma unroll 1
    for (int row = c.warp; !cleared || row < p.row_limit; row += kAttentionWarps) {
      const bool active = row < p.row_limit && c.RowActive(row);
      Choice choice;
      if (active) choice = SelectExperts(c, row, !cleared);
      // Once some row's logits are there, nobody is at the last layer's list any more.
      if (!cleared && (active || row >= p.row_limit)) {
        c.Sync();
        for (int e = c.tid; e < layer.expert_count; e += kAttentionThreads)
          c.smem.row_mask()[e] = 0;
        c.Sync();
        cleared = true;
      }
      if (active && c.lane < p.experts_per_token) {
        atomicOr(c.smem.row_mask() + choice.expert, 1u << row);
        c.smem.score()[choice.expert * 8 * NT + row] = FloatToBf16Bits(choice.weight);
      }
    }
  }
  c.Sync();
  if (c.warp != 0) return;
  int count = 0;
  for (int first = 0; first < layer.expert_count; first += 32) {
    const int e = first + c.lane;
    const bool active = e < layer.expert_count && c.smem.row_mask()[e] != 0;
    const uint32_t ballot = __ballot_sync(~0u, active);
    if (active) c.smem.active_id()[count + __popc(ballot & ((1u << c.lane) - 1))] = e;
    if (kGathers<NT> && active) c.smem.template Gather<NT>(e, c.smem.row_mask()[e]);
    count += __popc(ballot);
  }
  if (c.lane == 0) {
    c.misc.active_count = count;
    c.misc.expert_sum += count;
  }
  __syncwarp();
  if (c.lane == 0) BarrierArrive(SmemAddress(&c.misc.routing));
}

}  // namespace baton::cuda
