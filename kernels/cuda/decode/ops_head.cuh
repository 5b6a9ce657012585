// Consumer ops of the step's end: vocabulary rows with running maximum and log-sum-exp, and the
// choice of the token.
#pragma once

#include "kernels/cuda/decode/ops_layer.cuh"

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
  const float uniform = (static_cast<float>(word >> 8) + 0.5f) * 0x1p-24f;
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

template <int NT>
__device__ void RunLmHead(Consumer<NT>& c) {
  const DecodeParams& p = c.p;
  // Mass is added up in four classes by tile number, whatever the group size: the same order in any
  // batch.
  constexpr int kClasses = 4 / Consumer<NT>::kGroup;
  RunningHead best[Consumer<NT>::kPasses][kClasses];
  RunRows(c, c.misc.layer[0], [&](int pass, int token, int column, bool live, float out) {
    if (!live || token >= p.vocab || !c.RowActive(column)) return;
    const float logit = out * p.logit_scale;
    if (p.logits_out != nullptr) p.logits_out[uint64_t(column) * p.vocab + token] = logit;
    const float temperature = c.misc.temperature[column];
    float key = logit;
    if (temperature > 0.0f) {
      key = logit / temperature +
            GumbelNoise(c.misc.seed[column], c.misc.position[column] + 1, token);
    }
    const int group = (((token >> 3) - int(c.task.begin)) >> 1) / Consumer<NT>::kGroup;
#pragma unroll
    for (int k = 0; k < kClasses; ++k) {
      if (group % kClasses != k) continue;
      best[pass][k].Take(key, token, logit);
      best[pass][k].AddMass(logit, 1.0f);
    }
  });
  // A column's outputs lie with 16 rows of every tile of a group: merged by class, then row, by one
  // thread.
  constexpr int kGroup = Consumer<NT>::kGroup;
  constexpr int kFields = 5;
  static_assert(kConsumerThreads * kFields * 4 <= kConsumerWarps * Consumer<NT>::kBlocks * 512);
  float* scratch = c.smem.reduce();
#pragma unroll
  for (int turn = 0; turn < kClasses * Consumer<NT>::kPasses; ++turn) {
    const int k = turn / Consumer<NT>::kPasses, pass = turn % Consumer<NT>::kPasses;
    c.Sync();
    const RunningHead& mine = best[pass][k];
    float* to = scratch + c.tid * kFields;
    to[0] = mine.key;
    to[1] = __int_as_float(mine.token);
    to[2] = mine.logit;
    to[3] = mine.peak;
    to[4] = mine.sum;
    c.Sync();
    // Blocks 2 pass and 2 pass + 1 lie in `scratch`; a column's running result stays in
    // head_partial between turns.
    if (c.tid >= 8 * NT || c.tid >= p.row_limit) continue;
    HeadPartial& partial = p.head_partial[uint64_t(c.worker) * kMaxRows + c.tid];
    RunningHead all;
    if (turn > 0) {
      all.key = partial.key;
      all.token = partial.token;
      all.logit = partial.logit;
      all.peak = partial.max;
      all.sum = partial.sum;
    }
    for (int tile = 0; tile < kGroup; ++tile) {
      const int block = tile * NT + c.tid / 8;
      if (block / 2 != pass) continue;
      for (int row = 0; row < 16; ++row) {
        const int lane = (row & 7) * 4 + (c.tid & 7) / 2, reg = (row >> 3) * 2 + (c.tid & 1);
        const float* from = scratch + ((block & 1) * 128 + lane * 4 + reg) * kFields;
        all.Take(from[0], __float_as_int(from[1]), from[2]);
        all.AddMass(from[3], from[4]);
      }
    }
    partial.key = all.key;
    partial.token = all.token;
    partial.logit = all.logit;
    partial.max = all.peak;
    partial.sum = all.sum;
  }
  c.Signal();
}

// Ends the step for the rows of this worker: merges the workers' results in worker order, applies
// stop ids and limits, advances the row and tells the host.
template <int NT>
__device__ void RunSample(Consumer<NT>& c) {
  const DecodeParams& p = c.p;
  const int row = c.worker + c.warp * p.worker_count;  // Rows of one worker go to its warps.
  if (row < kMaxRows) {
    RowResultSlot& result = p.results[row];
    uint64_t state = 0;
    if (row < p.row_limit && c.RowActive(row)) {
      RunningHead all;
      for (int w = c.lane; w < p.worker_count; w += 32) {
        const char* from =
            reinterpret_cast<const char*>(p.head_partial + uint64_t(w) * kMaxRows + row);
        const float4 head = LoadRelaxed4(from);
        const float sum = LoadRelaxedFloat(reinterpret_cast<const float*>(from + 16));
        all.Take(head.x, __float_as_int(head.y), head.z);
        all.AddMass(head.w, sum);
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
        if (c.lane & offset) {
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
      if (c.lane == 0) {
        RowState& s = *p.rows;
        const bool aborted = *const_cast<volatile uint32_t*>(&c.misc.aborted) != 0;
        bool stop = false;
        for (int i = 0; i < s.stop_count[row]; ++i) stop |= s.stop_ids[row][i] == all.token;
        const int remaining = s.remaining[row] - 1;
        state = stop ? 2 : remaining <= 0 ? 3 : 1;
        if (!aborted) {
          s.token[row] = all.token;
          s.position[row] += 1;
          s.remaining[row] = remaining;
          if (state != 1) s.active[row] = 0;
        }
        result.row_id = s.row_id[row];
        result.token = all.token;
        result.expert_sum = c.misc.expert_sum;
        result.logprob = all.logit - all.peak - logf(all.sum);
      }
    }
    if (c.lane == 0) {
      __threadfence_system();
      StoreReleaseSystem(&result.tag, uint64_t(p.step) * 4 + state);
    }
  }
  c.Signal();
}

}  // namespace baton::cuda
