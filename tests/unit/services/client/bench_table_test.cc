#include "services/client/bench_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using testing::HasSubstr;

// 2.4 GB in a millisecond: half of the data sheet's bandwidth, 60 % of a stream at 4 TB/s.
DecodeMeasurement Measured() {
  return {.step_ms_median = 1,
          .step_ms_p99 = 1.25,
          .tokens_per_second = 8000,
          .distinct_experts = 25,
          .weight_bytes = 2e9,
          .kv_bytes = 0.4e9};
}

TEST(BenchTableTest, SaysSharesOfBothBandwidths) {
  const std::string line = BenchTableLine({.batch = 8}, Measured(), 4e12);
  EXPECT_THAT(line, HasSubstr("8000.0"));
  EXPECT_THAT(line, HasSubstr("50.0%"));
  EXPECT_THAT(line, HasSubstr("60.0%"));
  EXPECT_EQ(line.size(), BenchTableHead().size());
}

TEST(BenchTableTest, NamesRaggedContextsAndTheModelsOwnRouting) {
  const std::string line =
      BenchTableLine({.contexts = {1, 2}, .forced_experts = 0}, Measured(), 4e12);
  EXPECT_THAT(line, HasSubstr("ragged"));
  EXPECT_THAT(line, HasSubstr("model"));
}

TEST(BenchTableTest, GivesTheSameAsJson) {
  const auto json = nlohmann::json::parse(BenchJsonLine({.batch = 8}, Measured(), 4e12));
  EXPECT_EQ(json["batch"], 8);
  EXPECT_DOUBLE_EQ(json["share_of_device"], 0.5);
  EXPECT_DOUBLE_EQ(json["share_of_stream"], 0.6);
  EXPECT_DOUBLE_EQ(json["step_ms_p99"], 1.25);
}

}  // namespace
}  // namespace baton
