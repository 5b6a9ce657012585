// Routing, by the attention warps: once a layer, they wait for the router's logits, select every
// row's experts and lay out the layer's active list in shared memory.
//
// Of as many rows as there are warps every worker selects the experts for itself from the same
// logits, so that all agree without a hop. Of more, which a warp would have to take one after the
// other, each is selected by one worker, which publishes its choices as packets. They need but one
// copy: a row's logits follow x of all workers, that their merges of the last layer, those every
// worker's attention, and that its list, for which it had read the last choices.
#pragma once

#include "kernels/cuda/decode/worker_group.cuh"

namespace baton::cuda {

using AttentionGroup = WorkerGroup<kAttentionRole, kAttentionThreads>;

inline constexpr int kExpertsPerLane = 8;  // Up to 256 experts.

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

// What a row chose: lane i < k holds its i-th expert << 16 | that one's weight in bf16.
__device__ __forceinline__ uint32_t SelectExperts(const AttentionGroup& c, int row, bool waits) {
  const DecodeParams& p = c.p;
  const int lane = c.lane, count = c.layer().expert_count;
  const ExpertDraw draw{p.step, c.task().layer, row, count, p.forced_experts};
  uint32_t key[kExpertsPerLane];
  float value[kExpertsPerLane];
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane + 32 * i;
    key[i] = draw.pool > 0 && expert < count ? DrawnExpertKey(draw, expert) : 0;
  }
  LoadLogits(c, row, waits, value);
  if (draw.pool <= 0) {
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      const int expert = lane + 32 * i;
      if (expert < count) key[i] = ExpertKey(__float_as_uint(value[i]) >> 16, expert);
    }
  }
  uint32_t chosen = 0;  // This lane's key.
#pragma unroll 1
  for (int k = 0; k < p.experts_per_token; ++k) {
    uint32_t best[kExpertsPerLane];
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) best[i] = key[i];
#pragma unroll
    for (int half = kExpertsPerLane / 2; half > 0; half /= 2)
#pragma unroll
      for (int i = 0; i < half; ++i) best[i] = max(best[i], best[i + half]);
    const uint32_t first = __reduce_max_sync(~0u, best[0]);
    if (lane == k) chosen = first;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) key[i] = key[i] == first ? 0 : key[i];
  }
  const int expert = ExpertOfKey(chosen);
  float logit = 0.0f;
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const float of = __shfl_sync(~0u, value[i], expert & 31);
    if (expert >> 5 == i) logit = of;
  }
  return uint32_t(expert) << 16 | FloatToBf16Bits(RoutingWeight(p, logit, lane));
}

// A thread's share of what all rows chose, at most one choice of each row tile.
template <int NT>
struct Choices {
  int row[NT];  // -1: none.
  uint32_t choice[NT];
  __device__ void Clear() {
#pragma unroll
    for (int i = 0; i < NT; ++i) row[i] = -1;
  }
};

// Takes the packets of all rows' choices; waits for them if `waits`.
template <int NT>
__device__ __forceinline__ void TakeChoices(const AttentionGroup& c, bool waits,
                                            Choices<NT>& taken) {
  static_assert(kAttentionThreads == 8 * kMaxTopK);
  const uint32_t epoch = c.Epoch(c.task().layer);
  const int place = c.tid % kMaxTopK;
#pragma unroll
  for (int i = 0; i < NT; ++i) {
    const int row = 8 * i + c.tid / kMaxTopK;
    taken.row[i] = c.RowActive(row) && place < c.p.experts_per_token ? row : -1;
  }
  c.WaitPackets(c.layer().routing_counter, [&] {
    bool all = true;
#pragma unroll
    for (int i = 0; i < NT; ++i) {
      if (taken.row[i] < 0) continue;
      const uint64_t packet = LoadRelaxed64(c.p.choices + taken.row[i] * kMaxTopK + place);
      all &= Has(packet, epoch);
      // After an abort it may be anything: no place of the list is past its end.
      taken.choice[i] = min(uint32_t(packet), uint32_t(c.layer().expert_count << 16) - 1);
    }
    return all || !waits;
  });
}

template <int NT>
__device__ __forceinline__ void Choose(const AttentionGroup& c, bool waits, Choices<NT>& choices) {
  const DecodeParams& p = c.p;
  uint32_t rows = c.misc.active_rows;
  const bool publishes = __popc(rows) > kAttentionWarps;
  int row = c.worker + c.warp * p.worker_count, stride = kAttentionWarps * p.worker_count;
  if (!publishes) {  // The warp's place among the active rows tells its only one.
    for (int i = 0; i < c.warp; ++i) rows &= rows - 1;
    row = rows != 0 ? __ffs(rows) - 1 : kMaxRows;
    stride = kMaxRows;
  }
#pragma unroll 1
  for (; row < kMaxRows; row += stride) {
    if (!c.RowActive(row)) continue;
    const uint32_t choice = SelectExperts(c, row, waits);
    const bool chose = c.lane < p.experts_per_token;
    if (!publishes) {
      choices.row[0] = chose ? row : -1;
      choices.choice[0] = choice;
    } else if (chose && waits) {
      StorePacket(p.choices + row * kMaxTopK + c.lane, choice, c.Epoch(c.task().layer));
    }
    __syncwarp();
  }
  if (publishes) TakeChoices(c, waits, choices);
}

// Where the slices of this lane's experts go, those with `rows`: place in the list << 16 | where
// their rows begin, if those are listed. `end`: the same for what comes next.
inline constexpr int kListGroups = 4;  // Of 32 experts, side by side.
template <int NT>
__device__ __forceinline__ void PlaceSlices(const uint32_t (&rows)[kListGroups], int lane,
                                            uint32_t& end, uint32_t (&at)[kListGroups]) {
  if constexpr (!kLists<NT>) {
#pragma unroll
    for (int i = 0; i < kListGroups; ++i) {
      const uint32_t active = __ballot_sync(~0u, rows[i] != 0);
      at[i] = end + (__popc(active & ((1u << lane) - 1)) << 16);
      end += __popc(active) << 16;
    }
  } else {
    uint32_t sum[kListGroups];
#pragma unroll
    for (int i = 0; i < kListGroups; ++i)
      sum[i] = at[i] = __popc(rows[i]) | (rows[i] != 0 ? 1u << 16 : 0);
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
#pragma unroll
      for (int i = 0; i < kListGroups; ++i) {
        const uint32_t before = __shfl_up_sync(~0u, sum[i], offset);
        if (lane >= offset) sum[i] += before;
      }
    }
#pragma unroll
    for (int i = 0; i < kListGroups; ++i) {
      at[i] = end + sum[i] - at[i];
      end += __shfl_sync(~0u, sum[i], 31);
    }
  }
}

// Lays out the layer's active list.
template <int NT>
__device__ __forceinline__ void MakeList(const AttentionGroup& c, const Choices<NT>& choices) {
  const int count = c.layer().expert_count;
  uint32_t* const expert_rows = c.smem.expert_rows();
  uint16_t* const expert_scores = c.smem.expert_scores();
#pragma unroll
  for (int i = 0; i < NT; ++i) {
    if (choices.row[i] >= 0)
      atomicOr(expert_rows + (choices.choice[i] >> 16), 1u << choices.row[i]);
  }
  // From here on all rows' logits were there: nobody is at the last layer's list any more.
  c.Sync();
  // Every warp works out all places for itself, which takes no longer; they write the same.
  uint32_t end = kLists<NT> ? 8 * NT : 0;
#pragma unroll 1
  for (int begin = 0; begin < count; begin += 32 * kListGroups) {
    uint32_t rows[kListGroups], at[kListGroups];
#pragma unroll
    for (int i = 0; i < kListGroups; ++i) {
      const int expert = begin + 32 * i + c.lane;
      rows[i] = expert < count ? expert_rows[expert] : 0;
    }
    PlaceSlices<NT>(rows, c.lane, end, at);
#pragma unroll
    for (int i = 0; i < kListGroups; ++i) {
      if (rows[i] == 0) continue;
      const int expert = begin + 32 * i + c.lane, slice = at[i] >> 16;
      if (!kRacecheck || c.warp == 0) expert_scores[expert] = kLists<NT> ? at[i] : slice * 8 * NT;
      if (c.warp == i) c.smem.slices()[slice] = {rows[i], uint16_t(expert), uint16_t(at[i])};
    }
  }
  __syncwarp();
  if (kRacecheck) c.Sync();
#pragma unroll
  for (int i = 0; i < NT; ++i) {
    if (choices.row[i] < 0) continue;
    const int expert = choices.choice[i] >> 16, row = choices.row[i];
    const int rank = kLists<NT> ? __popc(expert_rows[expert] & ((1u << row) - 1)) : row;
    const int place = expert_scores[expert] + rank;
    c.smem.slice_scores()[place] = choices.choice[i];
    if (kLists<NT>) c.smem.slice_rows()[place] = row;
  }
  const int active_count = end >> 16;
  if (!kLists<NT> && c.tid < 8 * NT)
    c.smem.slice_scores()[active_count * 8 * NT + c.tid] = kOneBf16;
  if (c.tid == 0) {
    c.smem.slices()[active_count] = {c.misc.active_rows, 0, 0};
    c.misc.active_count = active_count;
    c.misc.expert_sum += active_count;
  }
  c.Sync();
  WarpArrive(c.misc.routing, c.tid == 0);
  // For the next layer, at which the warps begin together.
  for (int expert = c.tid; expert < count; expert += kAttentionThreads) expert_rows[expert] = 0;
}

// Until the MMA warps are at the layer nobody can have its logits: to ask L2 for them over and over
// would only slow down what streams.
__device__ __forceinline__ void AwaitLayer(const AttentionGroup& c) {
  const auto before = [&] {
    return LoadShared(c.misc.at[kMmaRole].layer) < uint32_t(c.task().layer) &&
           LoadShared(c.misc.finished[kMmaRole]) == 0 && !Ending(c.misc);
  };
  if (before()) Record(c.misc, kAttentionRole, {kWaitLayer, 0, uint32_t(c.task().layer)});
  while (before()) __nanosleep(200);
  __syncwarp();
}

// Of the current task's layer; once a layer, in layer order. The choice is rehearsed on whatever
// the packets were: the code, which else would come from L2 while every worker waits for it, is
// near when the logits are there.
template <int NT>
__device__ void RunRouting(const AttentionGroup& c) {
  const LayerDevice& layer = c.layer();
  if constexpr (NT > 1) AwaitLayer(c);
  Choices<NT> choices;
  choices.Clear();
  if (layer.expert_count > 0 && c.misc.active_rows != 0) {
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) Choose(c, pass == 1, choices);
  } else if (c.tid == 0) {
    // The last layer's list may go once its Down is done everywhere, as x of this layer tells.
    c.WaitFor(layer.routing_counter, layer.routing_producers);
  }
  MakeList(c, choices);
}

}  // namespace baton::cuda
