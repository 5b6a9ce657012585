// StepBuffers: the activations that workers share during a step. Owned by a StepEngine; who writes
// what when is the task graph's matter. Values are float, rounded as the model's mode asks.
#pragma once

#include <array>
#include <vector>

#include "common/generation.h"
#include "kernels/cpu/attention_split.h"
#include "kernels/cpu/cpu_model.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// A worker's best token of a row so far. `key` is what is maximised.
struct HeadCandidate {
  float key = 0;
  float logit = 0;
  TokenId token = -1;  // -1: none yet.
};

// exp-sum of eight neighbouring logits: sum of exp(logit - maximum).
struct HeadPartial {
  float maximum = 0;
  float sum = 0;
};

class StepBuffers {
 public:
  StepBuffers(const ModelConfig& config, const GraphShape& shape, int max_rows, int max_sampled,
              int worker_count);

  // Fills everything with NaN, so that a read before its write shows. For tests.
  void Poison();

  float* x(int copy, int row) { return &x_[copy][size_t(row) * hidden_]; }             // [hidden]
  float* router(int copy, int row) { return &router_[copy][size_t(row) * experts_]; }  // [experts]
  float* ffn_hidden(int copy, int row) { return &ffn_[copy][size_t(row) * ffn_width_]; }  // [width]
  float* query(int row) { return &query_[size_t(row) * query_width_]; }   // [query_heads, head_dim]
  float* new_key(int row) { return &new_key_[size_t(row) * kv_width_]; }  // [kv_heads, head_dim]
  float* new_value(int row) { return &new_value_[size_t(row) * kv_width_]; }
  float* merged(int row) { return &merged_[size_t(row) * query_width_]; }

  // Of one (row, query head, split): sum of p * v [head_dim], then the maximum score and the sum of
  // p = exp(score - maximum).
  float* partial(int row, int head, int split) {
    return &partial_[((size_t(row) * query_heads_ + head) * kMaxAttentionSplits + split) *
                     (head_dim_ + 2)];
  }

  HeadCandidate& candidate(int worker, int sampled) {
    return candidates_[size_t(worker) * max_sampled_ + sampled];
  }
  HeadPartial& head_partial(int sampled, int unit) {
    return head_partials_[size_t(sampled) * vocab_units_ + unit];
  }
  SampledToken& result(int sampled) { return results_[sampled]; }

 private:
  const size_t hidden_, experts_, ffn_width_, query_width_, kv_width_;
  const size_t query_heads_, head_dim_, vocab_units_, max_sampled_;
  std::array<std::vector<float>, kBufferCopies> x_, router_, ffn_;
  std::vector<float> query_, new_key_, new_value_, merged_, partial_;
  std::vector<HeadCandidate> candidates_;
  std::vector<HeadPartial> head_partials_;
  std::vector<SampledToken> results_;
};

}  // namespace baton
