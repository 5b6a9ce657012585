#include "kernels/cuda/bench/bench_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/models/north_geometry.h"

namespace baton::cuda {
namespace {

TEST(BenchRowsTest, GivesEveryRowPagesOfItsOwn) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const DecodePoint point{.batch = 3, .contexts = {10, 9000, 100}, .steps = 20};
  const std::vector<RowJoin> rows = BenchRows(config, point);
  const KvLayout layout = BenchLayout(config, point);
  ASSERT_EQ(rows.size(), 3u);
  std::set<PageId> full, window;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].slot, static_cast<int>(i));
    EXPECT_EQ(rows[i].position, point.contexts[i]);
    EXPECT_EQ(rows[i].max_new_tokens, TotalSteps(point));
    EXPECT_GE(rows[i].pages.full.size() * kPageTokens, size_t(point.contexts[i] + 20));
    for (PageId page : rows[i].pages.full) EXPECT_TRUE(full.insert(page).second);
    for (PageId page : rows[i].pages.window) EXPECT_TRUE(window.insert(page).second);
  }
  EXPECT_EQ(*full.rbegin() + 1, layout.groups[kFullGroup].page_count);
  EXPECT_EQ(*window.rbegin() + 1, layout.groups[kWindowGroup].page_count);
}

TEST(BenchRowsTest, GivesNoPagesOfAGroupWithoutLayers) {
  ModelConfig config = NorthMiniCodeGeometry();
  for (LayerConfig& layer : config.layers) layer.sliding = true;
  for (const RowJoin& row : BenchRows(config, {.batch = 2, .steps = 20})) {
    EXPECT_TRUE(row.pages.full.empty());
    EXPECT_FALSE(row.pages.window.empty());
  }
}

TEST(BenchRowsTest, CountsTheBytesOfAStepAtNorthMiniCodesSize) {
  const ModelConfig config = NorthMiniCodeGeometry();
  EXPECT_NEAR(WeightBytesRead(config, 8) * 1e-9, 6.61, 0.01);
  EXPECT_NEAR(WeightBytesRead(config, 51.6) * 1e-9, 26.4, 0.1);
  // 13 layers see 8192 keys, 36 see 4096, 2 KiB each.
  EXPECT_DOUBLE_EQ(KvBytesRead(config, {8192}), 2048.0 * (13 * 8192 + 36 * 4096));
  EXPECT_DOUBLE_EQ(KvBytesRead(config, {100, 100}), 2 * 2048.0 * 49 * 100);
}

TEST(BenchRowsTest, ARowOfItsOwnContextForEachOfABatch) {
  EXPECT_EQ(ContextsOf({.batch = 2, .context = 7}), (std::vector<int>{7, 7}));
  EXPECT_EQ(ContextsOf({.batch = 1, .contexts = {5}}), (std::vector<int>{5}));
}

}  // namespace
}  // namespace baton::cuda
