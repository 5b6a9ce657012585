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

// The largest error of a logit at the prompt's last position, ours or the reference's in bfloat16.
double LargestError(const OraclePrompt& prompt, const std::vector<float>& ours) {
  const std::vector<float>& wanted = prompt.float32.last_logits;
  double error = LargestDifference(ours, wanted);
  if (!prompt.bfloat16.last_logits.empty()) {
    error = std::max(error, LargestDifference(prompt.bfloat16.last_logits, wanted));
  }
  return error;
}

// The step at which the reference's bfloat16 run leaves its float32 run; -1 if it does not.
int ReferenceFlip(const OraclePrompt& prompt) {
  const std::vector<TokenId>& wanted = prompt.float32.greedy;
  const std::vector<TokenId>& other = prompt.bfloat16.greedy;
  const size_t count = std::min(wanted.size(), other.size());
  for (size_t i = 0; i < count; ++i) {
    if (wanted[i] != other[i]) return static_cast<int>(i);
  }
  return -1;
}

absl::StatusOr<OraclePromptResult> RunPrompt(SequenceRunner& runner, const OraclePrompt& prompt,
                                             bool float32) {
  const OracleRun& wanted = prompt.float32;
  const int count = static_cast<int>(wanted.greedy.size());
  OraclePromptResult result{.prompt_tokens = static_cast<int>(prompt.tokens.size()),
                            .greedy_count = count};
  std::vector<TokenId> prefix = prompt.tokens;
  int step = 0;
  do {
    BATON_ASSIGN_OR_RETURN(const GeneratedSequence ours, runner.Generate(prefix, count - step));
    if (step == 0) {
      result.relative_l2 = RelativeL2(ours.prompt_logits, wanted.last_logits);
      if (!float32) result.allowed_gap = LargestError(prompt, ours.prompt_logits);
    }
    const int begin = step;
    while (step < count && ours.tokens[step - begin].token == wanted.greedy[step]) ++step;
    if (step == count) break;
    result.differences.push_back({.step = step,
                                  .gap = wanted.top2_gap[step],
                                  .reference_differs = step == ReferenceFlip(prompt)});
    ++step;
    prefix.insert(prefix.end(), wanted.greedy.begin() + begin, wanted.greedy.begin() + step);
  } while (step < count);
  const std::vector<float>& reference = prompt.bfloat16.last_logits;
  if (!reference.empty()) {
    result.reference_relative_l2 = RelativeL2(reference, wanted.last_logits);
  }
  return result;
}

// Of the prompts that have a reference distance, and one that can be divided by.
std::vector<double> Ratios(const std::vector<OraclePromptResult>& prompts) {
  std::vector<double> ratios;
  for (const OraclePromptResult& prompt : prompts) {
    if (prompt.reference_relative_l2 > 0 && std::isfinite(prompt.reference_relative_l2)) {
      ratios.push_back(prompt.relative_l2 / prompt.reference_relative_l2);
    }
  }
  return ratios;
}

// Of none: 0.
double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

bool OraclePromptResult::greedy_ok() const {
  return std::all_of(differences.begin(), differences.end(),
                     [this](const OracleDifference& difference) { return Allows(difference); });
}

double RelativeL2(const std::vector<float>& a, const std::vector<float>& b) {
  BATON_CHECK(a.size() == b.size());
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += static_cast<double>(b[i]) * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
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
  for (const OraclePrompt& prompt : prompts) {
    BATON_ASSIGN_OR_RETURN(OraclePromptResult result, RunPrompt(*runner, prompt, options.float32));
    report.prompts.push_back(std::move(result));
  }
  const std::vector<double> ratios = Ratios(report.prompts);
  report.compared_prompts = static_cast<int>(ratios.size());
  report.median_ratio = Median(ratios);
  report.passed = options.float32 || report.median_ratio <= kBfloat16Ratio;
  double allowed_gap = 0;
  for (const OraclePromptResult& prompt : report.prompts) {
    allowed_gap = std::max(allowed_gap, prompt.allowed_gap);
  }
  for (OraclePromptResult& prompt : report.prompts) {
    prompt.allowed_gap = allowed_gap;
    const bool is_number =
        !std::isnan(prompt.relative_l2) && !std::isnan(prompt.reference_relative_l2);
    if (!prompt.greedy_ok() || !is_number) report.passed = false;
    if (options.float32 && !(prompt.relative_l2 <= kFloat32Limit)) report.passed = false;
  }
  return report;
}

}  // namespace baton
