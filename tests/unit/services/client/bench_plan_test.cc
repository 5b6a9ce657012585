#include "services/client/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig Config() {
  ModelConfig config;
  config.expert_count = 128;
  config.experts_per_token = 8;
  return config;
}

absl::StatusOr<std::vector<DecodePoint>> Points(const std::vector<std::string>& arguments) {
  CommandSpec spec{.name = "bench"};
  spec.flags = BenchPointFlags();
  spec.flags.push_back({"model", "DIR", "", "checkpoint"});
  const auto line = CommandLine::Parse(spec, arguments);
  EXPECT_TRUE(line.ok()) << line.status();
  return BenchPoints(*line, Config());
}

TEST(BenchPlanTest, MeasuresEachBatchSize) {
  const auto points = Points({"--batch=1,8", "--context=500", "--steps=9"});
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 2u);
  EXPECT_EQ((*points)[0].batch, 1);
  EXPECT_EQ((*points)[1].batch, 8);
  EXPECT_EQ((*points)[1].context, 500);
  EXPECT_EQ((*points)[1].steps, 9);
  EXPECT_EQ((*points)[1].forced_experts, 128);
}

TEST(BenchPlanTest, MakesOnePointOfRaggedContexts) {
  const auto points = Points({"--contexts=10,2000,31"});
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 1u);
  EXPECT_EQ((*points)[0].batch, 3);
  EXPECT_THAT((*points)[0].contexts, ElementsAre(10, 2000, 31));
}

TEST(BenchPlanTest, LetsACheckpointsRouterDecideUnlessToldOtherwise) {
  EXPECT_EQ((*Points({"--model=x"}))[0].forced_experts, 0);
  EXPECT_EQ((*Points({"--model=x", "--routing=uniform"}))[0].forced_experts, 128);
  EXPECT_EQ((*Points({"--routing=27"}))[0].forced_experts, 27);
  EXPECT_EQ((*Points({"--routing=model"}))[0].forced_experts, 0);
}

TEST(BenchPlanTest, FindsThePoolThatGivesSoManyDistinctExperts) {
  EXPECT_EQ(PoolForDistinct(25, 8, Config()), 26);  // 24.63 of 26, 25.38 of 27.
  EXPECT_EQ(PoolForDistinct(52, 8, Config()), 128);
  EXPECT_EQ(PoolForDistinct(8, 8, Config()), 8);
  EXPECT_EQ(PoolForDistinct(8, 1, Config()), 8);     // Of any pool: of the smallest.
  EXPECT_EQ(PoolForDistinct(64, 32, Config()), 65);  // 63.1 of 64, 64.0 of 65.
}

TEST(BenchPlanTest, EachBatchGetsThePoolOfItsTarget) {
  const auto points = Points({"--batch=8,32", "--distinct-experts=40"});
  ASSERT_TRUE(points.ok()) << points.status();
  for (const DecodePoint& point : *points) {
    EXPECT_EQ(point.forced_experts, PoolForDistinct(40, point.batch, Config()));
  }
  EXPECT_GT((*points)[0].forced_experts, (*points)[1].forced_experts);
  const auto ragged = Points({"--contexts=10,2000,31", "--distinct-experts=16", "--model=x"});
  ASSERT_TRUE(ragged.ok()) << ragged.status();
  EXPECT_EQ((*ragged)[0].forced_experts, PoolForDistinct(16, 3, Config()));
}

TEST(BenchPlanTest, RefusesATargetThatABatchCannotMeet) {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    const auto points = Points(arguments);
    EXPECT_EQ(points.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(points.status().message());
  };
  EXPECT_EQ(refusal({"--batch=32,1", "--distinct-experts=9"}),
            "--distinct-experts: a batch of 1, each row with 8 of 128 experts: wanted 8 to 8, "
            "found 9");
  EXPECT_THAT(refusal({"--batch=8", "--distinct-experts=7"}), HasSubstr("wanted 8 to 52, found 7"));
  EXPECT_THAT(refusal({"--batch=8", "--distinct-experts=60"}), HasSubstr("found 60"));
  EXPECT_THAT(refusal({"--distinct-experts=129"}), HasSubstr("distinct-experts"));
  EXPECT_THAT(refusal({"--distinct-experts=20", "--routing=uniform"}), HasSubstr("found both"));
}

TEST(BenchPlanTest, RefusesWhatItCannotMeasure) {
  const auto refusal = [](const std::string& argument) {
    const auto points = Points({argument});
    EXPECT_EQ(points.status().code(), absl::StatusCode::kInvalidArgument) << argument;
    return std::string(points.status().message());
  };
  EXPECT_THAT(refusal("--batch=33"), HasSubstr("--batch: wanted numbers from 1 to 32"));
  EXPECT_THAT(refusal("--batch=1,,2"), HasSubstr("found \"1,,2\""));
  EXPECT_THAT(refusal("--routing=129"), HasSubstr("1 to 128 experts, found \"129\""));
  EXPECT_THAT(refusal("--routing=random"), HasSubstr("--routing"));
  EXPECT_THAT(refusal("--steps=1"), HasSubstr("steps"));
  EXPECT_THAT(refusal("--contexts=0"), HasSubstr("--contexts"));
}

absl::StatusOr<std::vector<PrefillPoint>> Prefills(const std::vector<std::string>& arguments) {
  CommandSpec spec{.name = "bench prefill"};
  spec.flags = PrefillPointFlags();
  const auto line = CommandLine::Parse(spec, arguments);
  EXPECT_TRUE(line.ok()) << line.status();
  return PrefillPoints(*line);
}

TEST(PrefillPointsTest, OnePromptOfEachLengthOrPackedOnes) {
  const auto points = Prefills({"--lengths=512,9000"});
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 2u);
  EXPECT_EQ((*points)[1].length, 9000);
  EXPECT_EQ((*points)[1].count, 1);
  const auto packed = Prefills({"--lengths=512,9000", "--pack=2048"});
  EXPECT_EQ((*packed)[0].length, 2048);
  EXPECT_EQ((*packed)[0].count, 1);
  EXPECT_EQ((*packed)[1].count, 4);
  EXPECT_TRUE(absl::IsInvalidArgument(Prefills({"--lengths=0"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Prefills({"--pack=0"}).status()));
}

}  // namespace
}  // namespace baton
