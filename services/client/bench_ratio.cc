#include "services/client/bench_ratio.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace baton {

TokenAgreement CompareTokens(const DecodePoint& point, const DecodeMeasurement& megakernel,
                             const DecodeMeasurement& baseline) {
  TokenAgreement agreement{
      .token_count = static_cast<int>(std::min(megakernel.sampled.size(), baseline.sampled.size())),
      .row_count = point.batch};
  for (int row = 0; row < point.batch; ++row) {
    for (int at = row; at < agreement.token_count; at += point.batch) {
      const SampledToken& one = megakernel.sampled[at];
      const SampledToken& other = baseline.sampled[at];
      if (one.token != other.token) break;
      ++agreement.equal_count;
      if (at < point.batch) ++agreement.first_equal;
      agreement.largest_logprob_difference =
          std::max(agreement.largest_logprob_difference,
                   std::abs(static_cast<double>(one.logprob) - other.logprob));
    }
  }
  return agreement;
}

std::string BenchRatioLine(const DecodePoint& point, const DecodeMeasurement& megakernel,
                           const DecodeMeasurement& baseline, bool same_weights) {
  std::string line = absl::StrFormat(
      "batch %d: megakernel %.1f tok/s, one kernel per operation %.1f tok/s, %.2f times",
      point.batch, megakernel.tokens_per_second, baseline.tokens_per_second,
      megakernel.tokens_per_second / baseline.tokens_per_second);
  if (!same_weights) return absl::StrCat(line, "; other random weights, tokens not compared");
  const TokenAgreement agreement = CompareTokens(point, megakernel, baseline);
  absl::StrAppendFormat(
      &line,
      "; first token equal in %d of %d rows, %d of %d tokens before a row's first "
      "difference, log-probabilities there within %.3g",
      agreement.first_equal, agreement.row_count, agreement.equal_count, agreement.token_count,
      agreement.largest_logprob_difference);
  return line;
}

std::string BenchRatioJson(const DecodePoint& point, const DecodeMeasurement& megakernel,
                           const DecodeMeasurement& baseline, bool same_weights) {
  nlohmann::ordered_json json = {
      {"batch", point.batch},
      {"megakernel_tokens_per_second", megakernel.tokens_per_second},
      {"baseline_tokens_per_second", baseline.tokens_per_second},
      {"ratio", megakernel.tokens_per_second / baseline.tokens_per_second}};
  if (same_weights) {
    const TokenAgreement agreement = CompareTokens(point, megakernel, baseline);
    json["first_equal"] = agreement.first_equal;
    json["equal_tokens"] = agreement.equal_count;
    json["tokens"] = agreement.token_count;
    json["largest_logprob_difference"] = agreement.largest_logprob_difference;
  }
  return json.dump();
}

}  // namespace baton
