#include "services/decode/batch_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

WaitingSequence Waiting(SequenceId id, uint32_t full_pages = 1, uint32_t window_pages = 1) {
  return {.id = id, .full_pages = full_pages, .window_pages = window_pages};
}

constexpr BatchLimits kLimits{.max_rows = 4, .max_prefills = 2};

TEST(PlanBatchTest, AdmitsInOrderOfArrivalUpToMaxPrefills) {
  const std::vector<WaitingSequence> waiting = {Waiting(1), Waiting(2), Waiting(3)};
  const BatchPlan plan =
      PlanBatch({.waiting = waiting, .free_full_pages = 9, .free_window_pages = 9}, kLimits);
  EXPECT_THAT(plan.admit, ElementsAre(1, 2));
  EXPECT_THAT(plan.join, IsEmpty());
}

TEST(PlanBatchTest, CountsPrefillsThatRunAlready) {
  const std::vector<WaitingSequence> waiting = {Waiting(1), Waiting(2)};
  const BatchPlan plan = PlanBatch({.waiting = waiting,
                                    .free_full_pages = 9,
                                    .free_window_pages = 9,
                                    .prefilling_count = 1,
                                    .prefilling_row_count = 1},
                                   kLimits);
  EXPECT_THAT(plan.admit, ElementsAre(1));
}

TEST(PlanBatchTest, ALongPromptIsNotOvertaken) {
  const std::vector<WaitingSequence> waiting = {Waiting(1, 8), Waiting(2, 1)};
  const BatchPlan plan =
      PlanBatch({.waiting = waiting, .free_full_pages = 7, .free_window_pages = 9}, kLimits);
  EXPECT_THAT(plan.admit, IsEmpty());
}

TEST(PlanBatchTest, EachGroupOfPagesCanHoldASequenceBack) {
  const std::vector<WaitingSequence> waiting = {Waiting(1, 2, 3), Waiting(2, 2, 3)};
  EXPECT_THAT(
      PlanBatch({.waiting = waiting, .free_full_pages = 3, .free_window_pages = 9}, kLimits).admit,
      ElementsAre(1));
  EXPECT_THAT(
      PlanBatch({.waiting = waiting, .free_full_pages = 9, .free_window_pages = 5}, kLimits).admit,
      ElementsAre(1));
  EXPECT_THAT(
      PlanBatch({.waiting = waiting, .free_full_pages = 4, .free_window_pages = 6}, kLimits).admit,
      ElementsAre(1, 2));
}

TEST(PlanBatchTest, KeepsARowForEverySequenceThatWillNeedOne) {
  const std::vector<WaitingSequence> waiting = {Waiting(1), Waiting(2)};
  const std::vector<SequenceId> ready = {7};
  BatchView view{.waiting = waiting,
                 .ready = ready,
                 .free_full_pages = 9,
                 .free_window_pages = 9,
                 .prefilling_count = 1,
                 .prefilling_row_count = 1,
                 .running_count = 1};
  EXPECT_THAT(PlanBatch(view, kLimits).admit, ElementsAre(1));
  view.running_count = 2;
  EXPECT_THAT(PlanBatch(view, kLimits).admit, IsEmpty());
}

TEST(PlanBatchTest, ASequenceThatEndsWithItsFirstTokenNeedsNoRow) {
  std::vector<WaitingSequence> waiting = {Waiting(1)};
  waiting[0].needs_row = false;
  const BatchPlan plan = PlanBatch(
      {.waiting = waiting, .free_full_pages = 9, .free_window_pages = 9, .running_count = 4},
      kLimits);
  EXPECT_THAT(plan.admit, ElementsAre(1));
}

TEST(PlanBatchTest, ASequenceThatNeedsNoPrefillWaitsForARowOnly) {
  std::vector<WaitingSequence> waiting = {Waiting(1), Waiting(2)};
  waiting[0].needs_prefill = false;
  BatchView view{.waiting = waiting,
                 .free_full_pages = 9,
                 .free_window_pages = 9,
                 .prefilling_count = kLimits.max_prefills};
  EXPECT_THAT(PlanBatch(view, kLimits).admit, ElementsAre(1));
  view.prefilling_count = kLimits.max_prefills - 1;
  EXPECT_THAT(PlanBatch(view, kLimits).admit, ElementsAre(1, 2));
  view.running_count = kLimits.max_rows;
  EXPECT_THAT(PlanBatch(view, kLimits).admit, IsEmpty());
}

TEST(PlanBatchTest, ReadySequencesTakeFreeSlotsInOrder) {
  const std::vector<SequenceId> ready = {5, 6, 7};
  const std::vector<int> free_slots = {1, 3};
  const BatchPlan plan =
      PlanBatch({.ready = ready, .free_slots = free_slots, .running_count = 2}, kLimits);
  EXPECT_THAT(plan.join, ElementsAre(PlannedJoin{5, 1}, PlannedJoin{6, 3}));
}

TEST(PlanBatchTest, NothingToDoGivesAnEmptyPlan) {
  const BatchPlan plan = PlanBatch({.free_full_pages = 9, .free_window_pages = 9}, kLimits);
  EXPECT_THAT(plan.admit, IsEmpty());
  EXPECT_THAT(plan.join, IsEmpty());
}

}  // namespace
}  // namespace baton
