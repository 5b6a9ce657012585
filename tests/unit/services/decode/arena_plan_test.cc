#include "services/decode/arena_plan.h"

#include <gtest/gtest.h>

#include "tests/fakes/scripted_backend.h"

namespace baton {
namespace {

// Page sizes of the scripted layout: full 4096 bytes, window 2048 bytes.
ArenaBudget Budget(uint64_t memory_bytes) {
  return {.memory_bytes = memory_bytes,
          .max_rows = 4,
          .max_prefills = 2,
          .chunk_tokens = 128,
          .max_context_tokens = 1024};
}

TEST(PlanArenaTest, GivesNoMoreThanTheRowsCanUse) {
  const auto counts = PlanArena(ScriptedLayout(2, 2), Budget(uint64_t{1} << 30));
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts->full_pages, 1 + 4 * FullPagesFor(1024));
  EXPECT_EQ(counts->window_pages,
            1 + 4 * WindowPagesFor(1024, 64, 1) + 2 * WindowPagesFor(1024, 64, 128));
}

TEST(PlanArenaTest, StaysWithinTheMemory) {
  for (uint64_t memory_bytes : {30000u, 60000u, 100000u, 200000u}) {
    const auto counts = PlanArena(ScriptedLayout(2, 2), Budget(memory_bytes));
    ASSERT_TRUE(counts.ok()) << memory_bytes;
    EXPECT_LE(ScriptedLayout(counts->full_pages, counts->window_pages).total_bytes(), memory_bytes);
    EXPECT_GE(counts->full_pages, 2u);
    EXPECT_GE(counts->window_pages, 1 + WindowPagesFor(1024, 64, 128));
  }
}

TEST(PlanArenaTest, RefusesMemoryThatHoldsNoSequence) {
  const auto counts = PlanArena(ScriptedLayout(2, 2), Budget(4000));
  EXPECT_EQ(counts.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LongestSequenceTest, IsWhatTheFullPagesHold) {
  EXPECT_EQ(LongestSequence(ScriptedLayout(5, 20), 128), 4u * kPageTokens);
}

TEST(LongestSequenceTest, ASmallRingHoldsShortSequencesOnly) {
  EXPECT_EQ(LongestSequence(ScriptedLayout(100, 3), 128), 2u * kPageTokens);
}

}  // namespace
}  // namespace baton
