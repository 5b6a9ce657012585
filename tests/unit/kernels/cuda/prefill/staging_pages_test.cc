#include "kernels/cuda/prefill/staging_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace baton::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A window of two pages, chunks of one: a long prompt's ring has four pages.
constexpr StagingLimits kLimits{
    .full_pages = 10, .window_pages = 6, .window_keys = 128, .max_chunk_tokens = 64};

TEST(StagingPages, GrowsAPromptChunkByChunkOnOneRing) {
  StagingPages pages(kLimits);
  EXPECT_FALSE(pages.Holds(7));
  const KvPageTable* const first = *pages.Extend(7, 64, false);
  EXPECT_THAT(first->full, ElementsAre(0));
  EXPECT_THAT(first->window, ElementsAre(0, 1, 2, 3));
  const KvPageTable* const second = *pages.Extend(7, 200, true);
  EXPECT_EQ(first, second);
  EXPECT_THAT(second->full, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(second->window, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(pages.Holds(7));
}

TEST(StagingPages, AShortPromptTakesNoMoreThanItsOwnPages) {
  StagingPages pages(kLimits);
  EXPECT_THAT((*pages.Extend(1, 65, true))->window, ElementsAre(0, 1));
}

TEST(StagingPages, PromptsShareNoPage) {
  StagingPages pages(kLimits);
  std::set<PageId> full, window;
  for (const uint64_t id : {1, 2, 3}) {
    const KvPageTable* const table = *pages.Extend(id, 128, true);
    full.insert(table->full.begin(), table->full.end());
    window.insert(table->window.begin(), table->window.end());
  }
  EXPECT_EQ(full.size(), 6u);
  EXPECT_EQ(window.size(), 6u);
}

TEST(StagingPages, RefusesWithoutAChangeWhatDoesNotFit) {
  StagingPages pages(kLimits);
  ASSERT_TRUE(pages.Extend(1, 64, false).ok());
  const auto refused = pages.Extend(2, 64, false);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("wanted 1 full and 4 window pages, found 9 and 2 free"));
  EXPECT_FALSE(pages.Holds(2));
  EXPECT_FALSE(pages.Extend(1, 11 * 64, true).ok());
  EXPECT_EQ((*pages.Extend(1, 10 * 64, true))->full.size(), 10u);
}

TEST(StagingPages, WhatEndsIsFreeAgainInTheSameOrder) {
  StagingPages pages(kLimits);
  for (uint64_t id = 1; id <= 50; ++id) {
    const KvPageTable table = **pages.Extend(id, 10 * 64, false);
    EXPECT_THAT(table.window, ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(table.full.front(), 0u);
    EXPECT_EQ(table.full.back(), 9u);
    pages.End(id);
    pages.End(id);
    EXPECT_EQ(pages.sequence_count(), 0u);
  }
}

TEST(StagingPages, PromptsThatEndInAnotherOrderLeaveNoGaps) {
  StagingPages pages(kLimits);
  for (const uint64_t id : {1, 2, 3}) ASSERT_TRUE(pages.Extend(id, 128, true).ok());
  for (const uint64_t id : {2, 3, 1}) pages.End(id);
  EXPECT_THAT((*pages.Extend(4, 320, true))->full, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT((*pages.Extend(4, 384, true))->full, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(StagingPages, LimitsHoldTheLongestPromptBesidePackedOnes) {
  const StagingLimits limits = StagingLimitsFor(
      {.max_tokens = 1000, .window_keys = 128, .max_chunk_tokens = 256, .max_segments = 4});
  StagingPages pages(limits);
  ASSERT_TRUE(pages.Extend(1, 1000, false).ok());
  for (const uint64_t id : {2, 3, 4, 5}) ASSERT_TRUE(pages.Extend(id, 64, true).ok());
}

}  // namespace
}  // namespace baton::prefill
