// Oracle: what a reference implementation says about a checkpoint: for some prompts, the logits of
// the last position and the greedy continuation. Loaded from PREFIX.json and PREFIX.safetensors
// (tests/fixtures/oracle/README.md has the format). Immutable; any thread may read it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/generation.h"

namespace baton {

// One prompt as the reference ran it in one dtype.
struct OracleRun {
  std::vector<TokenId> greedy;     // Tokens after the prompt.
  std::vector<float> top2_gap;     // [greedy]: best logit minus second best where it was chosen.
  std::vector<float> last_logits;  // [vocab] at the prompt's last position.
  std::vector<TokenId> argmax;     // [prompt]: the best token at every position; may be empty.
};

struct OraclePrompt {
  std::vector<TokenId> tokens;
  OracleRun float32;
  OracleRun bfloat16;  // Empty if the files have none.
};

// The prompts of PREFIX.json / PREFIX.safetensors. NotFound without the files; InvalidArgument
// names the file and what is wrong in it.
absl::StatusOr<std::vector<OraclePrompt>> LoadOracle(const std::string& prefix);

}  // namespace baton
