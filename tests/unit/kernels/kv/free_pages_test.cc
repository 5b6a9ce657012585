#include "kernels/kv/free_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// [1, 20] without the pages given back.
FreePages Without(const std::vector<PageId>& used) {
  FreePages pages(1, 20);
  pages.Take(20);
  for (PageId page = 1; page <= 20; ++page) {
    if (std::find(used.begin(), used.end(), page) == used.end()) pages.Give(page);
  }
  return pages;
}

TEST(FreePages, TakesTheLowestOfOneStretch) {
  FreePages pages(1, 8);
  EXPECT_THAT(pages.Take(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(pages.Take(0), IsEmpty());
  EXPECT_EQ(pages.size(), 5u);
  EXPECT_THAT(pages.stretches(), ElementsAre(Pair(4, 5)));
}

TEST(FreePages, TakesTheSmallestStretchThatHoldsAll) {
  FreePages pages = Without({5, 9});  // 1-4, 6-8 and 10-20.
  EXPECT_THAT(pages.Take(3), ElementsAre(6, 7, 8));
  EXPECT_THAT(pages.Take(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(pages.Take(3), ElementsAre(10, 11, 12));
}

TEST(FreePages, OfEqualStretchesTakesTheLowest) {
  FreePages pages = Without({3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
  EXPECT_THAT(pages.Take(2), ElementsAre(1, 2));
}

TEST(FreePages, TakesFewStretchesWhereNoneHoldsAll) {
  FreePages pages = Without({4, 12, 15});  // 1-3, 5-11, 13-14 and 16-20.
  EXPECT_THAT(pages.Take(9), ElementsAre(5, 6, 7, 8, 9, 10, 11, 13, 14));
  EXPECT_THAT(pages.stretches(), ElementsAre(Pair(1, 3), Pair(16, 5)));
}

TEST(FreePages, JoinsWhatIsGivenBack) {
  FreePages pages(1, 5);
  pages.Take(5);
  EXPECT_THAT(pages.stretches(), IsEmpty());
  for (const PageId page : {3, 1, 5, 4}) pages.Give(page);
  EXPECT_THAT(pages.stretches(), ElementsAre(Pair(1, 1), Pair(3, 3)));
  pages.Give(2);
  EXPECT_THAT(pages.stretches(), ElementsAre(Pair(1, 5)));
}

TEST(FreePagesDeathTest, APageCannotBeFreeTwice) {
  FreePages pages(1, 5);
  EXPECT_DEATH(pages.Give(3), "");
  EXPECT_DEATH(pages.Take(6), "");
}

// Against a plain set, with sequences of many lengths that come and go.
TEST(FreePages, GivesOutEveryPageOnceWhateverComesAndGoes) {
  std::mt19937 random(3);
  FreePages pages(1, 500);
  std::set<PageId> used;
  std::vector<std::vector<PageId>> sequences;
  for (int i = 0; i < 5000; ++i) {
    const uint32_t wanted = 1 + random() % 90;
    if (wanted <= pages.size() && random() % 3 != 0) {
      sequences.push_back(pages.Take(wanted));
      ASSERT_EQ(sequences.back().size(), wanted);
      for (const PageId page : sequences.back()) ASSERT_TRUE(used.insert(page).second) << page;
    } else if (!sequences.empty()) {
      const size_t ended = random() % sequences.size();
      std::shuffle(sequences[ended].begin(), sequences[ended].end(), random);
      for (const PageId page : sequences[ended]) {
        pages.Give(page);
        used.erase(page);
      }
      sequences.erase(sequences.begin() + static_cast<int64_t>(ended));
    }
    ASSERT_EQ(pages.size() + used.size(), 500u);
    PageId end = 0;
    uint32_t counted = 0;
    for (const auto& [first, length] : pages.stretches()) {
      ASSERT_TRUE(end == 0 || first > end) << "stretches touch";
      for (PageId page = first; page < first + length; ++page) ASSERT_FALSE(used.contains(page));
      end = first + length;
      counted += length;
    }
    ASSERT_EQ(counted, pages.size());
  }
}

}  // namespace
}  // namespace baton
