#include "services/router/generation_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GenerationPlanTest : public testing::Test {
 protected:
  absl::StatusOr<GenerationPlan> Plan(const v1::GenerateRequest& request) {
    return PlanGeneration(request, *text_, facts_, limits_);
  }
  std::string Refusal(const v1::GenerateRequest& request) {
    const auto plan = Plan(request);
    EXPECT_TRUE(absl::IsInvalidArgument(plan.status())) << plan.status();
    return std::string(plan.status().message());
  }
  static v1::GenerateRequest Ids(std::vector<int32_t> ids) {
    v1::GenerateRequest request;
    request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
    return request;
  }

  std::unique_ptr<ModelText> text_ =
      *ModelText::Load(std::string(BATON_SOURCE_DIR) + "/deploy/models/north-nano");
  ModelFacts facts_{.vocab_size = 4096, .max_positions = 4096, .eos_ids = {5, 3}};
  PlanLimits limits_{.model_name = "nano", .context_tokens = 100, .max_text_bytes = 1000};
};

TEST_F(GenerationPlanTest, TokenIdsAreUsedAsTheyAre) {
  const auto plan = Plan(Ids({7, 8, 9}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->prompt, ElementsAre(7, 8, 9));
  EXPECT_EQ(plan->max_tokens, 97u) << "as many as fit";
  EXPECT_THAT(plan->stop_ids, ElementsAre(5, 3));
  EXPECT_FALSE(plan->has_seed);
}

TEST_F(GenerationPlanTest, TextGetsTheBeginningOfSequenceToken) {
  v1::GenerateRequest request;
  request.set_text("abc1234def");
  EXPECT_THAT(Plan(request)->prompt, ElementsAre(2, 902, 85, 1071, 37, 38, 338));
}

TEST_F(GenerationPlanTest, ChatIsRenderedAndTokenized) {
  v1::GenerateRequest request;
  request.mutable_chat()->set_messages_json(R"([{"role": "user", "content": "Hi"}])");
  EXPECT_THAT(Plan(request)->prompt, ElementsAre(2, 4, 7, 17, 58, 91, 18, 5, 4, 8, 9));
}

TEST_F(GenerationPlanTest, SamplingIsTakenOver) {
  v1::GenerateRequest request = Ids({1});
  request.mutable_sampling()->set_temperature(0.5f);
  request.mutable_sampling()->set_seed(9);
  request.mutable_sampling()->set_max_tokens(20);
  request.mutable_sampling()->add_stop_token_ids(77);
  request.mutable_sampling()->set_ignore_eos(true);
  const auto plan = Plan(request);
  EXPECT_EQ(plan->sampling.temperature, 0.5f);
  EXPECT_TRUE(plan->has_seed);
  EXPECT_EQ(plan->sampling.seed, 9u);
  EXPECT_EQ(plan->max_tokens, 20u);
  EXPECT_THAT(plan->stop_ids, ElementsAre(77));
}

TEST_F(GenerationPlanTest, RefusalsNameFieldWantedAndFound) {
  EXPECT_THAT(Refusal({}), HasSubstr("prompt: wanted token_ids, text or chat"));
  EXPECT_THAT(Refusal(Ids({})), HasSubstr("at least 1"));
  EXPECT_THAT(Refusal(Ids({1, 4096})), HasSubstr("token_ids[1]: wanted 0 to 4095, found 4096"));
  v1::GenerateRequest request = Ids({1});
  request.mutable_sampling()->set_max_tokens(100);
  EXPECT_THAT(Refusal(request), HasSubstr("wanted at most 100 tokens, found 1 + 100"));
  EXPECT_THAT(Refusal(Ids(std::vector<int32_t>(100, 1))), HasSubstr("found 100 + 1"));
  request = Ids({1});
  for (int i = 0; i < 9; ++i) request.mutable_sampling()->add_stop_token_ids(i);
  EXPECT_THAT(Refusal(request), HasSubstr("stop_token_ids: wanted at most 8, found 9"));
  request = Ids({1});
  request.set_request_id(std::string(129, 'x'));
  EXPECT_THAT(Refusal(request), HasSubstr("128"));
  request.set_request_id("a\nb");
  EXPECT_THAT(Refusal(request), HasSubstr("printable"));
  request.Clear();
  request.set_text(std::string(1001, 'x'));
  EXPECT_THAT(Refusal(request), HasSubstr("wanted at most 1000 bytes, found 1001"));
}

TEST_F(GenerationPlanTest, AnotherModelIsNotFound) {
  v1::GenerateRequest request = Ids({1});
  request.set_model("nano");
  EXPECT_TRUE(Plan(request).ok());
  request.set_model("mini");
  EXPECT_TRUE(absl::IsNotFound(Plan(request).status()));
  request.set_model(std::string(100000, 'x'));
  EXPECT_LT(Plan(request).status().message().size(), 300u);
}

}  // namespace
}  // namespace baton
