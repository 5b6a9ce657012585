// StepPlan: one step's rows as the ops see them. A decode step has one row per sequence; a prompt
// chunk has one row per token, all of one sequence. Written by the engine's owner between steps,
// read by the workers during one.
#pragma once

#include <vector>

#include "common/generation.h"
#include "kernels/cpu/kv_view.h"
#include "kernels/kv/kv_layout.h"

namespace baton {

struct StepRow {
  TokenId token = 0;
  int position = 0;                    // Where `token` stands.
  const KvPageTable* pages = nullptr;  // Outlives the step.
};

// A row whose next token is wanted.
struct SampledRow {
  int row = 0;  // Index in StepPlan::rows.
  SamplingParams sampling;
  float* logits = nullptr;  // If set, receives the row's logits [vocab].
};

struct StepPlan {
  std::vector<StepRow> rows;
  std::vector<SampledRow> sampled;
  KvView kv;
};

}  // namespace baton
