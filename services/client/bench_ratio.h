// The megakernel's measurement beside the baseline's, for `baton bench decode --baseline`. Pure.
#pragma once

#include <string>

#include "kernels/decode_benchmark.h"

namespace baton {

// How far two runs of the same weights and rows agree.
struct TokenAgreement {
  int token_count = 0;                    // Of each run.
  int equal_count = 0;                    // Tokens of rows before their first difference.
  int first_equal = 0;                    // Rows whose first token is the same …
  int row_count = 0;                      // … of so many.
  double largest_logprob_difference = 0;  // Over the equal tokens.
};

// `sampled` of both are [steps][rows]; rows as the point has.
TokenAgreement CompareTokens(const DecodePoint& point, const DecodeMeasurement& megakernel,
                             const DecodeMeasurement& baseline);

// One line. `same_weights`: both ran one checkpoint, so that tokens can be compared.
std::string BenchRatioLine(const DecodePoint& point, const DecodeMeasurement& megakernel,
                           const DecodeMeasurement& baseline, bool same_weights);
std::string BenchRatioJson(const DecodePoint& point, const DecodeMeasurement& megakernel,
                           const DecodeMeasurement& baseline, bool same_weights);

}  // namespace baton
