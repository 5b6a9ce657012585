#include "kernels/cpu/attention_split.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(AttentionSplit, CoversEachVisibleKeyOnce) {
  for (int window : {0, 1, 128, 4096}) {
    for (int position : {0, 1, 63, 255, 256, 257, 4095, 4096, 5000, 100000}) {
      const KeyRange keys = CachedKeys(position, window);
      const int count = SplitCount(keys);
      EXPECT_LE(count, kMaxAttentionSplits);
      int next = keys.begin;
      for (int split = 0; split < count; ++split) {
        const KeyRange part = Split(keys, split);
        EXPECT_EQ(part.begin, next);
        EXPECT_GT(part.end, part.begin);
        next = part.end;
      }
      EXPECT_EQ(next, position);
    }
  }
}

TEST(AttentionSplit, TheWindowCountsTheRowsOwnKey) {
  EXPECT_EQ(CachedKeys(200, 128).begin, 73);  // 127 cached keys and its own.
  EXPECT_EQ(CachedKeys(100, 128).begin, 0);
  EXPECT_EQ(CachedKeys(100, 0).begin, 0);
  EXPECT_EQ(CachedKeys(100, 1).begin, 100);
}

}  // namespace
}  // namespace baton
