#include "kernels/cuda/prefill/staging_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kernels/cuda/prefill/chunk_plan.h"
#include "kernels/kv/model_kv_layout.h"

namespace baton::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A layer of each kind that is asked for, a window of two pages.
KvLayout Layout(bool full, bool sliding, const StagingLimits& limits) {
  ModelConfig config{.kv_heads = 1, .head_dim = 128, .window_keys = 128};
  if (full) config.layers.push_back({.sliding = false});
  if (sliding) config.layers.push_back({.sliding = true});
  return MakeModelKvLayout(config, {.element_bytes = 2, .swizzled = true}, limits.full_pages,
                           limits.window_pages);
}

// Chunks of one page: a long prompt's ring has four.
StagingPages SmallPages() {
  return StagingPages(Layout(true, true, {.full_pages = 10, .window_pages = 6}), 64);
}

TEST(StagingPages, GrowsAPromptChunkByChunkOnOneRing) {
  StagingPages pages = SmallPages();
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
  StagingPages pages = SmallPages();
  EXPECT_THAT((*pages.Extend(1, 65, true))->window, ElementsAre(0, 1));
}

TEST(StagingPages, PromptsShareNoPage) {
  StagingPages pages = SmallPages();
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
  StagingPages pages = SmallPages();
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
  StagingPages pages = SmallPages();
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
  StagingPages pages = SmallPages();
  for (const uint64_t id : {1, 2, 3}) ASSERT_TRUE(pages.Extend(id, 128, true).ok());
  for (const uint64_t id : {2, 3, 1}) pages.End(id);
  EXPECT_THAT((*pages.Extend(4, 320, true))->full, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT((*pages.Extend(4, 384, true))->full, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(StagingPages, LimitsHoldTheLongestPromptBesidePackedOnes) {
  const StagingLimits limits = StagingLimitsFor(
      {.max_tokens = 1000, .window_keys = 128, .max_chunk_tokens = 256, .max_segments = 4});
  StagingPages pages(Layout(true, true, limits), 256);
  ASSERT_TRUE(pages.Extend(1, 1000, false).ok());
  for (const uint64_t id : {2, 3, 4, 5}) ASSERT_TRUE(pages.Extend(id, 64, true).ok());
}

// As CudaPrefillRunner stages a prompt for an arena on another GPU.
TEST(StagingPages, AModelOfOneKindOfLayersTakesPagesOfThatKindAlone) {
  const StagingLimits limits = StagingLimitsFor(
      {.max_tokens = 1000, .window_keys = 128, .max_chunk_tokens = 256, .max_segments = 4});
  const std::vector<TokenId> tokens(100, 7);
  for (const bool sliding : {false, true}) {
    const KvLayout layout = Layout(!sliding, sliding, limits);
    StagingPages pages(layout, 256);
    const auto table = pages.Extend(1, 100, true);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ((*table)->full.size(), sliding ? 0u : 2u);
    EXPECT_EQ((*table)->window.size(), sliding ? 2u : 0u);
    const PrefillSegment segment{.tokens = tokens, .pages = *table};
    const auto plan = PlanChunk({&segment, 1}, layout,
                                {.max_tokens = 256,
                                 .max_segments = 4,
                                 .max_positions = 1000,
                                 .vocab = 10,
                                 .tile_tokens = 16});
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
}

}  // namespace
}  // namespace baton::prefill
