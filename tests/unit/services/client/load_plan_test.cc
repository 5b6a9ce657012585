#include "services/client/load_plan.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

LoadPlanOptions Options(double rate, uint64_t seed) {
  return {.request_count = 4000,
          .rate = rate,
          .prompt = *LengthDistribution::Parse("uniform:1:100", 1000),
          .output = *LengthDistribution::Parse("7", 1000),
          .seed = seed};
}

TEST(PlanLoadTest, PoissonArrivalsHaveTheRateAndItsSpread) {
  const auto plan = PlanLoad(Options(20, 1));
  EXPECT_NEAR(plan.back().start_s, 200, 10);
  double squares = 0;
  double last = 0;
  for (const PlannedRequest& request : plan) {
    EXPECT_GE(request.start_s, last);
    squares += (request.start_s - last) * (request.start_s - last);
    last = request.start_s;
  }
  // Exponential pauses: their mean square is twice the square of their mean.
  EXPECT_NEAR(squares / 4000, 2.0 / 400, 0.0006);
}

TEST(PlanLoadTest, AClosedLoopHasTheSameLengthsAndNoTimes) {
  const auto open = PlanLoad(Options(20, 1));
  const auto closed = PlanLoad(Options(0, 1));
  for (size_t i = 0; i < open.size(); ++i) {
    EXPECT_EQ(closed[i].start_s, 0);
    ASSERT_EQ(closed[i].prompt_tokens, open[i].prompt_tokens);
    ASSERT_EQ(closed[i].prompt_seed, open[i].prompt_seed);
    EXPECT_EQ(closed[i].output_tokens, 7u);
  }
  EXPECT_NE(PlanLoad(Options(20, 2))[0].prompt_seed, open[0].prompt_seed);
}

TEST(MakePromptTest, IdsAreInTheVocabularyAndFollowTheSeed) {
  const PlannedRequest request{.prompt_tokens = 500, .prompt_seed = 3};
  const auto prompt = MakePrompt(request, 50);
  EXPECT_EQ(prompt.size(), 500u);
  for (TokenId id : prompt) EXPECT_TRUE(id >= 0 && id < 50);
  EXPECT_EQ(prompt, MakePrompt(request, 50));
  EXPECT_NE(prompt, MakePrompt({.prompt_tokens = 500, .prompt_seed = 4}, 50));
}

}  // namespace
}  // namespace baton
