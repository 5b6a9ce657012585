#include "services/decode/self_prefill.h"

#include <gtest/gtest.h>

#include "tests/fakes/scripted_backend.h"

namespace baton {
namespace {

class SelfPrefillTest : public testing::Test {
 protected:
  static Sequence Prompt(std::vector<TokenId> prompt) {
    Sequence sequence;
    sequence.job.prompt = std::move(prompt);
    return sequence;
  }

  ScriptedDecodeState state_;
  SelfPrefill prefill_{{.runner = std::make_unique<ScriptedPrefillRunner>(4, &state_),
                        .layout = ScriptedLayout(9, 9)}};
};

TEST_F(SelfPrefillTest, ComputesPromptsInOrderChunkByChunk) {
  const Sequence first = Prompt({1, 2, 3, 4, 5, 6});
  const Sequence second = Prompt({7, 8, 9, 10});
  EXPECT_EQ(prefill_.head(), nullptr);
  prefill_.Add(&first);
  prefill_.Add(&second);
  EXPECT_EQ(prefill_.head(), &first);
  EXPECT_FALSE(prefill_.started());
  EXPECT_FALSE((*prefill_.RunChunk()).has_value());
  EXPECT_TRUE(prefill_.started());
  EXPECT_EQ((*prefill_.RunChunk())->token, 7);
  EXPECT_EQ(prefill_.head(), &second);
  EXPECT_FALSE(prefill_.started());
  EXPECT_EQ((*prefill_.RunChunk())->token, 11) << "a prompt of exactly one chunk";
  EXPECT_EQ(prefill_.count(), 0u);
  EXPECT_EQ(state_.chunks_run, 3);
}

TEST_F(SelfPrefillTest, ARemovedPromptLeavesNothingBehind) {
  const Sequence first = Prompt({1, 2, 3, 4, 5, 6});
  const Sequence second = Prompt({7, 8, 9, 10, 11});
  prefill_.Add(&first);
  prefill_.Add(&second);
  ASSERT_TRUE(prefill_.RunChunk().ok());
  prefill_.Remove(&first);
  EXPECT_FALSE(prefill_.started());
  EXPECT_FALSE((*prefill_.RunChunk()).has_value());
  EXPECT_EQ((*prefill_.RunChunk())->token, 12);
  prefill_.Remove(&first);
  EXPECT_EQ(prefill_.count(), 0u);
}

TEST_F(SelfPrefillTest, AFailedChunkTakesItsPromptOut) {
  state_.fail_chunk = 2;
  const Sequence first = Prompt({1, 2, 3, 4, 5, 6});
  const Sequence second = Prompt({7});
  prefill_.Add(&first);
  prefill_.Add(&second);
  ASSERT_TRUE(prefill_.RunChunk().ok());
  EXPECT_TRUE(absl::IsInternal(prefill_.RunChunk().status()));
  EXPECT_EQ((*prefill_.RunChunk())->token, 8);
}

}  // namespace
}  // namespace baton
