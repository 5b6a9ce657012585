// The step's end: vocabulary rows with running maximum and log-sum-exp, and the choice of the
// token.
#pragma once

#include "kernels/cuda/decode/device_steps.h"
#include "kernels/cuda/decode/epilogue_group.cuh"

namespace baton::cuda {

// Philox4x32-10 as in common/philox.h: the uniform of (seed, position, token).
__device__ __forceinline__ float GumbelNoise(uint64_t seed, uint32_t position, uint32_t token) {
  uint32_t c0 = token >> 2, c1 = position, c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const uint32_t lane = token & 3;
  const uint32_t word = lane == 0 ? c0 : lane == 1 ? c1 : lane == 2 ? c2 : c3;
  const float uniform = (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f;
  return -logf(-logf(uniform));
}

struct RunningHead {
  float key = -INFINITY;
  int token = 0x7fffffff;
  float logit = 0.0f;
  float peak = kLowestLogit;
  float sum = 0.0f;
  static constexpr float kLowestLogit = -1e30f;

  __device__ void Take(float other_key, int other_token, float other_logit) {
    if (other_key > key || (other_key == key && other_token < token)) {
      key = other_key;
      token = other_token;
      logit = other_logit;
    }
  }
  __device__ void AddMass(float other_peak, float other_sum) {
    const float both = fmaxf(peak, other_peak);
    sum = sum * __expf(peak - both) + other_sum * __expf(other_peak - both);
    peak = both;
  }
};

// Every thread keeps the best and the mass of its place over the tiles in order; then the 16 places
// of a column are merged in row order, by one thread.
template <int NT>
__device__ void FinishLmHead(EpilogueGroup<NT>& c) {
  const DecodeParams& p = c.p;
  RunningHead best[NT];
#pragma unroll 1
  for (uint32_t tile = c.task().begin; tile < c.task().end; tile += 2) {
    const int token = tile * 8 + c.Row();
    const bool live = tile + (c.Row() >> 3) < c.task().end && token < p.vocab;
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int column = c.Column(j);
      const float out = c.TakeTeamTile();
      if (!live || !c.RowActive(column)) continue;
      const float logit = out * p.logit_scale;
      if (p.logits_out != nullptr) p.logits_out[uint64_t(column) * p.vocab + token] = logit;
      const float temperature = c.misc.temperature[column];
      float key = logit;
      if (temperature > 0.0f) {
        key = logit / temperature +
              GumbelNoise(c.misc.seed[column], c.misc.position[column] + 1, token);
      }
      best[j].Take(key, token, logit);
      best[j].AddMass(logit, 1.0f);
    }
  }
  constexpr int kFields = 5;
  static_assert(kEpilogueThreads * kFields * 4 <= kStages<NT> * kMmaWarps / kTeams<NT> * 512);
  // The MMA warps have no tile after the head's: the partial tiles' room is free.
  c.MeetAtLayer(p.layer_count + 1);
  float* scratch = c.smem.reduce();
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    c.Sync();
    float* to = scratch + c.tid * kFields;
    to[0] = best[j].key;
    to[1] = __int_as_float(best[j].token);
    to[2] = best[j].logit;
    to[3] = best[j].peak;
    to[4] = best[j].sum;
    c.Sync();
    const int column = j * 8 + c.tid;
    if (c.tid >= 8 || column >= p.row_limit) continue;
    RunningHead all;
    for (int row = 0; row < 16; ++row) {
      const int place = (row & 7) * 16 + (c.tid >> 1) * 4 + (row >> 3) * 2 + (c.tid & 1);
      const float* from = scratch + place * kFields;
      all.Take(from[0], __float_as_int(from[1]), from[2]);
      all.AddMass(from[3], from[4]);
    }
    HeadPartial& partial = p.head_partial[uint64_t(c.worker) * kMaxRows + column];
    partial.key = all.key;
    partial.token = all.token;
    partial.logit = all.logit;
    partial.max = all.peak;
    partial.sum = all.sum;
  }
}

// What a worker found out about a row.
struct HeadLoad {
  float4 best;  // Key, token, logit, peak.
  float sum;
};
__device__ __forceinline__ HeadLoad LoadHead(const DecodeParams& p, int row, int worker) {
  // A worker without vocabulary rows has nothing to say.
  const uint32_t units = p.vocab_units, workers = p.worker_count;
  const bool has_rows =
      uint32_t(worker) < workers &&
      (units >= workers || units * worker / workers != units * (worker + 1) / workers);
  const char* from =
      reinterpret_cast<const char*>(p.head_partial + uint64_t(worker) * kMaxRows + row);
  return {LoadRelaxed4If(has_rows, from), LoadRelaxedFloatIf(has_rows, from + 16)};
}

// The row's results of all workers, in worker order; the same in all lanes.
__device__ __forceinline__ RunningHead MergeHeads(const DecodeParams& p, int row, int lane) {
  constexpr int kLoads = 5;  // On their way at once.
  RunningHead all;
#pragma unroll 1
  for (int first = lane; first < p.worker_count; first += 32 * kLoads) {
    HeadLoad loads[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) loads[i] = LoadHead(p, row, first + 32 * i);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const float4 head = loads[i].best;
      if (loads[i].sum == 0.0f) continue;  // It has no rows: every logit counts for something.
      all.Take(head.x, __float_as_int(head.y), head.z);
      all.AddMass(head.w, loads[i].sum);
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    const float key = __shfl_xor_sync(~0u, all.key, offset);
    const int token = __shfl_xor_sync(~0u, all.token, offset);
    const float logit = __shfl_xor_sync(~0u, all.logit, offset);
    const float peak = __shfl_xor_sync(~0u, all.peak, offset);
    const float sum = __shfl_xor_sync(~0u, all.sum, offset);
    all.Take(key, token, logit);
    // Lower lane first on both sides, so that both get the same bits.
    RunningHead low = all, high = all;
    if (lane & offset) {
      low.peak = peak;
      low.sum = sum;
    } else {
      high.peak = peak;
      high.sum = sum;
    }
    low.AddMass(high.peak, high.sum);
    all.peak = low.peak;
    all.sum = low.sum;
  }
  return all;
}

// Ends the step for the rows of this worker: merges the workers' results in worker order, applies
// stop ids and limits, advances the row and tells the host. Every load is on its way at once.
template <int NT>
__device__ void RunSample(EpilogueGroup<NT>& c) {
  const DecodeParams& p = c.p;
  RowState& s = *p.rows;
  // Rows of one worker go to its warps.
  for (int row = c.worker + c.warp * p.worker_count; row < kMaxRows;
       row += kEpilogueWarps * p.worker_count) {
    RowResultSlot& result = p.results[row];
    uint64_t state = 0;
    if (row < p.row_limit && c.RowActive(row)) {
      const int stop_count = s.stop_count[row], remaining = s.remaining[row] - 1;
      const int stop_id = s.stop_ids[row][c.lane % kMaxStops];
      const uint64_t row_id = s.row_id[row];
      const RunningHead all = MergeHeads(p, row, c.lane);
      const bool stop = __any_sync(~0u, c.lane < stop_count && stop_id == all.token);
      state = stop ? 2 : remaining <= 0 ? 3 : 1;
      if (c.lane == 0) {
        if (!Ending(c.misc)) {
          s.token[row] = all.token;
          s.position[row] = c.misc.position[row] + 1;
          s.remaining[row] = remaining;
          if (state != 1) s.active[row] = 0;
        }
        result.row_id = row_id;
        result.token = all.token;
        result.expert_sum = c.misc.expert_sum;
        result.logprob = all.logit - all.peak - logf(all.sum);
      }
    }
    if (c.lane == 0) StoreReleaseSystem(&result.tag, ResultTag(p.step, state));
  }
}

}  // namespace baton::cuda
