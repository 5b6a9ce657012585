#include "kernels/check/oracle_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/check/sequence_runner.h"

namespace baton {
namespace {

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

OraclePromptResult Judge(const OraclePrompt& prompt, const GeneratedSequence& ours) {
  const OracleRun& wanted = prompt.float32;
  OraclePromptResult result{
      .prompt_tokens = static_cast<int>(prompt.tokens.size()),
      .relative_l2 = RelativeL2(ours.prompt_logits, wanted.last_logits),
      .greedy_count = static_cast<int>(wanted.greedy.size()),
  };
  for (const SampledToken& token : ours.tokens) result.greedy.push_back(token.token);
  const auto difference =
      std::mismatch(result.greedy.begin(), result.greedy.end(), wanted.greedy.begin()).first;
  result.greedy_equal = static_cast<int>(difference - result.greedy.begin());
  if (difference != result.greedy.end()) {
    result.first_difference = result.greedy_equal;
    result.gap = wanted.top2_gap[result.first_difference];
  }
  const std::vector<float>& reference = prompt.bfloat16.last_logits;
  if (!reference.empty()) {
    result.reference_relative_l2 = RelativeL2(reference, wanted.last_logits);
  }
  return result;
}

// Twice the largest error of a logit, ours or the reference's in bfloat16.
double BridgedGap(const OraclePrompt& prompt, const GeneratedSequence& ours) {
  const std::vector<float>& wanted = prompt.float32.last_logits;
  double error = LargestDifference(ours.prompt_logits, wanted);
  if (!prompt.bfloat16.last_logits.empty()) {
    error = std::max(error, LargestDifference(prompt.bfloat16.last_logits, wanted));
  }
  return 2 * error;
}

// Of the prompts that have a reference distance; 0 if none has.
double MedianRatio(const std::vector<OraclePromptResult>& prompts) {
  std::vector<double> ratios;
  for (const OraclePromptResult& prompt : prompts) {
    if (prompt.reference_relative_l2 > 0) {
      ratios.push_back(prompt.relative_l2 / prompt.reference_relative_l2);
    }
  }
  if (ratios.empty()) return 0;
  std::sort(ratios.begin(), ratios.end());
  return (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
}

}  // namespace

double RelativeL2(const std::vector<float>& a, const std::vector<float>& b) {
  BATON_CHECK(a.size() == b.size());
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

absl::StatusOr<OracleReport> CheckAgainstOracle(Backend& backend,
                                                const std::vector<OraclePrompt>& prompts,
                                                const OracleCheckOptions& options) {
  size_t max_tokens = 1;
  for (const OraclePrompt& prompt : prompts) {
    max_tokens = std::max(max_tokens, prompt.tokens.size() + prompt.float32.greedy.size());
    if (prompt.float32.last_logits.size() != static_cast<size_t>(backend.config().vocab)) {
      return absl::InvalidArgumentError(absl::StrCat("oracle: wanted logits of ",
                                                     backend.config().vocab, " tokens, found ",
                                                     prompt.float32.last_logits.size()));
    }
  }
  BATON_ASSIGN_OR_RETURN(auto runner,
                         SequenceRunner::Make(backend, {.max_tokens = static_cast<int>(max_tokens),
                                                        .chunk_tokens = options.chunk_tokens,
                                                        .make_kv_memory = options.make_kv_memory}));
  OracleReport report;
  double allowed_gap = 0;
  for (const OraclePrompt& prompt : prompts) {
    BATON_ASSIGN_OR_RETURN(
        const GeneratedSequence ours,
        runner->Generate(prompt.tokens, static_cast<int>(prompt.float32.greedy.size())));
    report.prompts.push_back(Judge(prompt, ours));
    if (!options.float32) allowed_gap = std::max(allowed_gap, BridgedGap(prompt, ours));
  }
  report.median_ratio = MedianRatio(report.prompts);
  report.passed = options.float32 || report.median_ratio <= kBfloat16Ratio;
  for (OraclePromptResult& prompt : report.prompts) {
    prompt.allowed_gap = allowed_gap;
    if (!prompt.greedy_ok()) report.passed = false;
    if (options.float32 && !(prompt.relative_l2 <= kFloat32Limit)) report.passed = false;
  }
  return report;
}

}  // namespace baton
