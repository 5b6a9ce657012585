#include "services/client/bench_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using testing::HasSubstr;

// 2.4 GB in a millisecond: half of the data sheet's bandwidth, 60 % of a stream at 4 TB/s.
DecodeMeasurement Measured() {
  return {.step_ms_mean = 1,
          .step_ms_median = 0.99,
          .step_ms_p99 = 1.25,
          .tokens_per_second = 8000,
          .distinct_experts = 25,
          .weight_bytes = 2e9,
          .kv_bytes = 0.4e9,
          .join_and_norm = 0.125};
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
  EXPECT_DOUBLE_EQ(json["waits"]["join_and_norm"], 0.125);
}

// 395 TFLOP in a second: half of the matrix rate.
PrefillMeasurement Prefilled() {
  return {.seconds_median = 1,
          .seconds_best = 0.5,
          .seconds_estimated = 0.875,
          .tokens = 8192,
          .matrix_operations = 300e12,
          .attention_operations = 95e12,
          .stages = {{"qkv", 0.25}, {"attention", 0.75}}};
}

TEST(PrefillTableTest, SaysRatesAndTheShareOfTheMatrixRate) {
  const std::string line = PrefillTableLine({.length = 8192}, Prefilled());
  EXPECT_THAT(line, HasSubstr("8192"));
  EXPECT_THAT(line, HasSubstr("395"));
  EXPECT_THAT(line, HasSubstr(" 875.000 "));
  EXPECT_THAT(line, HasSubstr("50.0%"));
  EXPECT_EQ(line.size(), PrefillTableHead().size());
  EXPECT_THAT(PrefillStageLines(Prefilled()), HasSubstr("750.000 ms  75.0%"));
}

TEST(PrefillTableTest, GivesTheSameAsJson) {
  const auto json = nlohmann::json::parse(PrefillJsonLine({.length = 8192}, Prefilled()));
  EXPECT_DOUBLE_EQ(json["tokens_per_second"], 8192);
  EXPECT_DOUBLE_EQ(json["share_of_matrix_rate"], 0.5);
  EXPECT_DOUBLE_EQ(json["ms_estimated"], 875);
  EXPECT_DOUBLE_EQ(json["stage_ms"]["attention"], 750);
}

}  // namespace
}  // namespace baton
