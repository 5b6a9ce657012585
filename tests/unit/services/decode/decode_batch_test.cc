#include "services/decode/decode_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/scripted_backend.h"

namespace baton {
namespace {

using testing::ElementsAre;

class DecodeBatchTest : public testing::Test {
 protected:
  static constexpr int kRows = 3;

  KvSequencePages Reserve() { return *arena_->Reserve(2, 1); }
  uint32_t used_pages() const { return arena_->Stats().groups[kFullGroup].used(); }

  void Join(int slot, uint64_t row_id, int max_new_tokens) {
    KvSequencePages pages = Reserve();
    EXPECT_TRUE(batch_
                    .Join({.slot = slot,
                           .row_id = row_id,
                           .token = 10,
                           .position = 3,
                           .max_new_tokens = max_new_tokens,
                           .pages = pages.Table()},
                          std::move(pages))
                    .ok());
  }
  // A prompt of `prompt` that goes in through the row.
  absl::Status JoinFed(int slot, uint64_t row_id, std::vector<TokenId> prompt, int max_new_tokens,
                       std::vector<TokenId> stop_ids = {}) {
    KvSequencePages pages = Reserve();
    return batch_.Join({.slot = slot,
                        .row_id = row_id,
                        .token = prompt.front(),
                        .position = 0,
                        .max_new_tokens = max_new_tokens,
                        .pages = pages.Table(),
                        .stop_ids = std::move(stop_ids)},
                       std::move(pages), {prompt.begin() + 1, prompt.end()});
  }
  std::vector<RowResult> Step() {
    EXPECT_TRUE(batch_.SubmitSteps().ok());
    auto results = batch_.Await();
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *results : std::vector<RowResult>{};
  }

  Metrics registry_{"decode"};
  DecodeMetrics metrics_{registry_};
  ScriptedDecodeState state_;
  std::unique_ptr<KvArena> arena_ =
      *KvArena::Create({.layout = ScriptedLayout(33, 33), .incarnation = "test"});
  DecodeBatch batch_{std::make_unique<ScriptedDecodeRunner>(kRows, 2, &state_), arena_.get(),
                     &metrics_};
};

TEST_F(DecodeBatchTest, ARowRunsToItsLengthAndFreesItsPages) {
  Join(1, 7, 3);
  EXPECT_THAT(batch_.FreeSlots(), ElementsAre(0, 2));
  for (int i = 0; i < 3; ++i) {
    const auto results = Step();
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].row_id, 7u);
    EXPECT_EQ(results[0].sampled.token, 11 + i);
    EXPECT_EQ(results[0].finish, i == 2 ? FinishReason::kLength : FinishReason::kNone);
  }
  EXPECT_EQ(batch_.row_count(), 0u);
  EXPECT_EQ(used_pages(), 0u);
  while (batch_.busy()) EXPECT_TRUE(Step().empty());
}

TEST_F(DecodeBatchTest, CountsDistinctExpertsOfStepsThatHaveAny) {
  const auto counted = [&] { return metrics_.distinct_experts.Collect().histogram; };
  Join(0, 1, 2);
  while (batch_.busy()) Step();
  EXPECT_EQ(counted().sample_count, 0u);
  state_.distinct_experts = 12.5;
  Join(0, 2, 2);
  while (batch_.busy()) Step();
  EXPECT_GE(counted().sample_count, 2u);
  EXPECT_EQ(counted().sample_sum, 12.5 * static_cast<double>(counted().sample_count));
}

TEST_F(DecodeBatchTest, CountsWhatTheRunnerSaysOfItsCycles) {
  Join(0, 1, 100);
  Step();
  EXPECT_EQ(metrics_.cycles.Value(), 0);
  state_.cycles = {.total = 100, .memory = 40, .routing = 20, .join_and_norm = 10, .other = 5};
  Step();
  Step();  // It has not looked again.
  state_.cycles = {.total = 150, .memory = 41, .routing = 22, .join_and_norm = 13, .other = 9};
  Step();
  EXPECT_EQ(metrics_.cycles.Value(), 150);
  EXPECT_EQ(metrics_.wait_memory_cycles.Value(), 41);
  EXPECT_EQ(metrics_.wait_routing_cycles.Value(), 22);
  EXPECT_EQ(metrics_.join_and_norm_cycles.Value(), 13);
  EXPECT_EQ(metrics_.wait_other_cycles.Value(), 9);
}

TEST_F(DecodeBatchTest, KeepsTwoStepsInFlight) {
  Join(0, 1, 10);
  ASSERT_TRUE(batch_.SubmitSteps().ok());
  EXPECT_EQ(state_.steps_submitted, 2);
}

TEST_F(DecodeBatchTest, ALeavingRowKeepsItsPagesUntilNoStepCanTouchThem) {
  Join(0, 1, 100);
  Join(1, 2, 100);
  Step();  // One more step is in flight, with both rows.
  batch_.Leave(0);
  EXPECT_EQ(batch_.row_count(), 1u);
  EXPECT_THAT(batch_.FreeSlots(), ElementsAre(2)) << "slot 0 leaves with the next step";
  const uint32_t before = used_pages();
  const auto late = Step();  // The step that still had the row.
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].row_id, 2u);
  EXPECT_EQ(used_pages(), before);
  Step();  // The step with which it left.
  EXPECT_EQ(used_pages(), before - 2);
  EXPECT_THAT(batch_.FreeSlots(), ElementsAre(0, 2));
}

TEST_F(DecodeBatchTest, ARowThatLeavesBeforeItsFirstStepCostsNothing) {
  Join(0, 1, 100);
  batch_.Leave(0);
  EXPECT_FALSE(batch_.busy());
  EXPECT_EQ(used_pages(), 0u);
  EXPECT_THAT(batch_.FreeSlots(), ElementsAre(0, 1, 2));
}

TEST_F(DecodeBatchTest, TheLastRowsLeaveStillGetsItsStep) {
  Join(0, 1, 100);
  Step();
  batch_.Leave(0);
  EXPECT_TRUE(batch_.busy());
  while (batch_.busy()) Step();
  EXPECT_EQ(used_pages(), 0u);
}

TEST_F(DecodeBatchTest, AResultOfAFormerRowIsNotTakenForItsSuccessors) {
  Join(0, 1, 100);
  Step();
  batch_.Leave(0);
  Step();
  Join(0, 9, 100);
  for (int i = 0; i < 3; ++i) {
    for (const RowResult& result : Step()) EXPECT_EQ(result.row_id, 9u);
  }
}

TEST_F(DecodeBatchTest, AFedPromptAnswersAfterItsLastTokenOnly) {
  Join(0, 1, 9);
  ASSERT_TRUE(JoinFed(1, 2, {50, 70, 90}, 2).ok());
  std::vector<TokenId> answers;
  int steps = 0;
  while (batch_.row_count() > 0) {
    ++steps;
    for (const RowResult& result : Step()) {
      if (result.row_id != 2) continue;
      answers.push_back(result.sampled.token);
      EXPECT_GE(steps, 3);
    }
  }
  // 51 and 71 were sampled after 50 and 70, and thrown away.
  EXPECT_THAT(answers, ElementsAre(91, 92));
  EXPECT_EQ(used_pages(), 0u);
}

TEST_F(DecodeBatchTest, AFedPromptIsJoinedAnewEveryStepAtItsPosition) {
  ASSERT_TRUE(JoinFed(1, 2, {50, 70, 90}, 4, {91}).ok());
  while (batch_.row_count() > 0) Step();
  ASSERT_EQ(state_.joins.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const RowJoin& join = state_.joins[static_cast<size_t>(i)];
    EXPECT_EQ(join.token, 50 + 20 * i);
    EXPECT_EQ(join.position, i);
    // Where the row ends does not move.
    EXPECT_EQ(join.position + join.max_new_tokens, 2 + 4);
    EXPECT_EQ(join.stop_ids.empty(), i < 2);
  }
}

TEST_F(DecodeBatchTest, AStopTokenInsideAFedPromptDoesNotStopIt) {
  ASSERT_TRUE(JoinFed(0, 2, {50, 70, 90}, 5, {51, 71, 92}).ok());
  std::vector<RowResult> results;
  while (batch_.row_count() > 0) {
    for (const RowResult& result : Step()) results.push_back(result);
  }
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].sampled.token, 92);
  EXPECT_EQ(results[1].finish, FinishReason::kStop);
}

TEST_F(DecodeBatchTest, AFedRowThatLeavesAnswersNothingAndFreesItsPages) {
  ASSERT_TRUE(JoinFed(0, 2, {50, 60, 70, 80, 90}, 5).ok());
  Step();
  batch_.Leave(0);
  while (batch_.busy()) EXPECT_TRUE(Step().empty());
  EXPECT_EQ(used_pages(), 0u);
  EXPECT_THAT(batch_.FreeSlots(), ElementsAre(0, 1, 2));
  ASSERT_TRUE(JoinFed(0, 3, {10}, 1).ok());
  const auto results = Step();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].sampled.token, 11);
}

TEST_F(DecodeBatchTest, ARowThatTheRunnerRefusesNeverReachesAStep) {
  Join(0, 1, 5);
  const uint32_t before = used_pages();
  state_.unknown = 90;
  // Each of its tokens is an input of a step of its own.
  for (const std::vector<TokenId>& prompt :
       std::vector<std::vector<TokenId>>{{90}, {90, 50}, {50, 90, 60}, {50, 60, 90}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(JoinFed(1, 2, prompt, 5)));
    EXPECT_EQ(used_pages(), before);
    EXPECT_EQ(batch_.row_count(), 1u);
    EXPECT_THAT(batch_.FreeSlots(), ElementsAre(1, 2));
  }
  Join(1, 3, 5);
  EXPECT_EQ(Step().size(), 2u);
  while (batch_.busy()) Step();
  EXPECT_EQ(state_.joins.size(), 2u);
  EXPECT_EQ(used_pages(), 0u);
}

TEST_F(DecodeBatchTest, ResetAfterAFailedStepFreesEverything) {
  state_.fail_await_at_step = 2;
  Join(0, 1, 100);
  Join(1, 2, 100);
  Step();
  ASSERT_TRUE(batch_.SubmitSteps().ok());
  EXPECT_FALSE(batch_.Await().ok());
  EXPECT_TRUE(batch_.Reset().ok());
  EXPECT_EQ(used_pages(), 0u);
  EXPECT_FALSE(batch_.busy());
  EXPECT_THAT(batch_.FreeSlots(), ElementsAre(0, 1, 2));
}

TEST_F(DecodeBatchTest, ALostDeviceKeepsThePages) {
  state_.fail_reset = true;
  state_.fail_submit_at_step = 1;
  Join(0, 1, 100);
  EXPECT_FALSE(batch_.SubmitSteps().ok());
  EXPECT_FALSE(batch_.Reset().ok());
  EXPECT_EQ(used_pages(), 2u);
  EXPECT_EQ(batch_.row_count(), 0u);
}

}  // namespace
}  // namespace baton
