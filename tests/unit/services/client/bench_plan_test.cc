#include "services/client/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::vector<DecodePoint>> Points(const std::vector<std::string>& arguments) {
  CommandSpec spec{.name = "bench"};
  spec.flags = BenchPointFlags();
  spec.flags.push_back({"model", "DIR", "", "checkpoint"});
  const auto line = CommandLine::Parse(spec, arguments);
  EXPECT_TRUE(line.ok()) << line.status();
  return BenchPoints(*line, 128);
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
