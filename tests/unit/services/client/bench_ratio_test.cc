#include "services/client/bench_ratio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two rows, three steps; the second row differs from the second step on.
const DecodePoint kPoint{.batch = 2};

DecodeMeasurement Megakernel() {
  return {.tokens_per_second = 600,
          .sampled = {{1, -0.5f}, {2, -1.0f}, {3, -0.5f}, {4, -0.5f}, {5, -0.25f}, {6, -2.0f}}};
}

DecodeMeasurement Baseline() {
  return {.tokens_per_second = 400,
          .sampled = {{1, -0.5f}, {2, -1.125f}, {3, -0.5f}, {9, -0.5f}, {5, -0.25f}, {6, -2.0f}}};
}

TEST(BenchRatioTest, CountsTokensBeforeARowsFirstDifference) {
  const TokenAgreement agreement = CompareTokens(kPoint, Megakernel(), Baseline());
  EXPECT_EQ(agreement.token_count, 6);
  EXPECT_EQ(agreement.equal_count, 4);  // The last step's equal token of row 1 does not count.
  EXPECT_EQ(agreement.first_equal, 2);
  EXPECT_EQ(agreement.row_count, 2);
  EXPECT_DOUBLE_EQ(agreement.largest_logprob_difference, 0.125);
}

TEST(BenchRatioTest, SaysTheRatioAndTheAgreement) {
  const std::string line = BenchRatioLine(kPoint, Megakernel(), Baseline(), true);
  EXPECT_THAT(line, HasSubstr("1.50 times"));
  EXPECT_THAT(line, HasSubstr("2 of 2 rows"));
  EXPECT_THAT(line, HasSubstr("4 of 6 tokens"));
  const auto json = nlohmann::json::parse(BenchRatioJson(kPoint, Megakernel(), Baseline(), true));
  EXPECT_DOUBLE_EQ(json["ratio"], 1.5);
  EXPECT_EQ(json["equal_tokens"], 4);
}

TEST(BenchRatioTest, ComparesNoTokensOfOtherWeights) {
  EXPECT_THAT(BenchRatioLine(kPoint, Megakernel(), Baseline(), false), Not(HasSubstr("rows")));
  EXPECT_FALSE(nlohmann::json::parse(BenchRatioJson(kPoint, Megakernel(), Baseline(), false))
                   .contains("equal_tokens"));
}

}  // namespace
}  // namespace baton
