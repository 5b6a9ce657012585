// Runs a Backend through an oracle's prompts, prefill and decode in this process, and says how far
// it is from the reference: the logic of `baton check --oracle`. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/check/oracle.h"

namespace baton {

struct OracleCheckOptions {
  // The backend computes as the reference's float32 run does: then every greedy token must agree
  // and logits within kFloat32Limit. Else it is judged as bfloat16.
  bool float32 = false;
  int chunk_tokens = 512;  // Of the prefill.
  // Makes memory for the arena on the backend's device; host memory if unset.
  std::function<absl::StatusOr<std::unique_ptr<KvMemory>>(uint64_t size_bytes)> make_kv_memory;
};

// Largest relative L2 distance of float32 logits from the reference's.
inline constexpr double kFloat32Limit = 1e-3;
// Largest distance of bfloat16 logits from the reference's float32 ones, in units of the distance
// of the reference's own bfloat16 ones; the median over prompts counts.
inline constexpr double kBfloat16Ratio = 1.25;

// A greedy step at which our token is not the reference's float32 one.
struct OracleDifference {
  int step = 0;
  double gap = 0;  // Of the reference's two best logits there.
  // The reference's own bfloat16 run leaves its float32 run at this very step.
  bool reference_differs = false;
};

struct OraclePromptResult {
  int prompt_tokens = 0;
  double relative_l2 = 0;            // Of our logits from the reference's float32 ones.
  double reference_relative_l2 = 0;  // Of the reference's bfloat16 ones from those; 0 without them.
  int greedy_count = 0;
  // Every step is judged behind the reference's tokens: after a difference the sequence goes on
  // from the reference's token, so that one near tie does not hide the steps behind it.
  std::vector<OracleDifference> differences;
  // The dtype's error: the largest difference of a single logit from the reference's float32 run,
  // ours or the reference's own in bfloat16, at the last position of any of the oracle's prompts.
  // Of any: an expert choice that flips makes it large, and can at every step; a prompt's one
  // position does not show it (a prompt of one token never). A flip needs a gap of at most twice
  // the error; once is the stricter reading. 0 in float32.
  double allowed_gap = 0;

  int greedy_equal() const { return greedy_count - static_cast<int>(differences.size()); }
  bool Allows(const OracleDifference& difference) const {
    return difference.gap <= allowed_gap || (allowed_gap > 0 && difference.reference_differs);
  }
  bool greedy_ok() const;  // Every difference is allowed.
};

struct OracleReport {
  std::vector<OraclePromptResult> prompts;
  // Of relative_l2 / reference_relative_l2, over the prompts whose reference has a bfloat16
  // distance that can be divided by: not 0, not infinite, a number. 0 if none has.
  double median_ratio = 0;
  int compared_prompts = 0;
  bool passed = false;
};

absl::StatusOr<OracleReport> CheckAgainstOracle(Backend& backend,
                                                const std::vector<OraclePrompt>& prompts,
                                                const OracleCheckOptions& options);

// ||a - b|| / ||b||; 0 if a and b are equal, zeros too. Vectors of one length.
double RelativeL2(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace baton
