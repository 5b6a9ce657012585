#include "kernels/cuda/prefill/chunk_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace baton::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KvLayout TestLayout() {
  KvLayout layout;
  layout.kv_heads = 1;
  layout.head_dim = 64;
  layout.swizzled = true;
  layout.window_keys = 100;
  layout.layer_group = {kFullGroup, kWindowGroup};
  layout.layer_in_group = {0, 0};
  for (KvGroupLayout& group : layout.groups) {
    group.layer_count = 1;
    group.page_count = 20;
    group.page_bytes = layout.layer_bytes();
  }
  return layout;
}

class ChunkPlanTest : public ::testing::Test {
 protected:
  PrefillSegment Segment(int begin, int tokens, const KvPageTable& pages) {
    PrefillSegment segment;
    segment.tokens = absl::MakeConstSpan(tokens_).subspan(0, tokens);
    segment.begin = begin;
    segment.pages = &pages;
    return segment;
  }
  std::string Refusal(std::vector<PrefillSegment> segments) {
    const auto plan = PlanChunk(segments, layout_, limits_);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  }

  const std::vector<TokenId> tokens_ = std::vector<TokenId>(500, 7);
  const KvLayout layout_ = TestLayout();
  ChunkLimits limits_{
      .max_tokens = 300, .max_segments = 2, .max_positions = 1000, .vocab = 10, .tile_tokens = 16};
  const KvPageTable short_pages_{{3}, {4}};
  const KvPageTable long_pages_{{5, 6, 7}, {8, 9, 10}};
};

TEST_F(ChunkPlanTest, PacksSegmentsWithTheirPositionsAndPages) {
  std::vector<PrefillSegment> segments = {Segment(0, 3, short_pages_),
                                          Segment(100, 40, long_pages_)};
  segments[1].sample = true;
  const auto plan = PlanChunk(segments, layout_, limits_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tokens, 43);
  EXPECT_EQ(plan->positions[2], 2);
  EXPECT_EQ(plan->positions[3], 100);
  EXPECT_EQ(plan->token_segment[2], 0);
  EXPECT_EQ(plan->token_segment[3], 1);
  EXPECT_THAT(plan->pages, ElementsAre(3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(plan->segments[1].full_begin, 2);
  EXPECT_EQ(plan->segments[1].window_begin, 5);
  EXPECT_EQ(plan->segments[1].window_ring, 3);
  EXPECT_EQ(plan->segments[1].kv_length, 140);
  EXPECT_THAT(plan->sample_rows, ElementsAre(42));
  EXPECT_THAT(plan->sample_segment, ElementsAre(1));
}

TEST_F(ChunkPlanTest, TilesCoverEveryTokenOnceLongestFirst) {
  const auto plan = PlanChunk(
      std::vector<PrefillSegment>{Segment(0, 33, short_pages_), Segment(90, 50, long_pages_)},
      layout_, limits_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<int> seen(plan->tokens, 0);
  int last_end = 1 << 30;
  for (const AttentionTile& tile : plan->tiles) {
    EXPECT_LE(tile.tokens, 16);
    EXPECT_LE(tile.position + tile.tokens, last_end);
    last_end = tile.position + tile.tokens;
    for (int i = 0; i < tile.tokens; ++i) {
      ++seen[tile.row + i];
      EXPECT_EQ(plan->positions[tile.row + i], tile.position + i);
      EXPECT_EQ(plan->token_segment[tile.row + i], tile.segment);
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST_F(ChunkPlanTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(Refusal({}), HasSubstr("0 segments"));
  EXPECT_THAT(Refusal({Segment(0, 0, short_pages_)}), HasSubstr("non-empty"));
  EXPECT_THAT(Refusal({Segment(990, 20, long_pages_)}), HasSubstr("within [0, 1000)"));
  EXPECT_THAT(Refusal({Segment(0, 65, short_pages_)}), HasSubstr("need 2 full-attention pages"));
  EXPECT_THAT(Refusal({Segment(0, 180, KvPageTable{{1, 2, 3}, {1, 2}})}),
              HasSubstr("window ring of 3"));
  EXPECT_THAT(Refusal({Segment(0, 3, KvPageTable{{20}, {1}})}), HasSubstr("page id 20"));
  limits_.max_tokens = 40;
  EXPECT_THAT(Refusal({Segment(0, 30, short_pages_), Segment(0, 30, short_pages_)}),
              HasSubstr("more than 40 tokens"));
  limits_.vocab = 7;
  EXPECT_THAT(Refusal({Segment(0, 3, short_pages_)}), HasSubstr("token id 7"));
}

}  // namespace
}  // namespace baton::prefill
