#include "kernels/cuda/prefill/kv_push.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KvPush, JoinsPagesThatFollowEachOtherOnBothSides) {
  EXPECT_THAT(PlanPageRuns({0, 1, 2, 3, 4}, {10, 11, 20, 21, 23}, 0, 4),
              ElementsAre(PageRun{0, 10, 2}, PageRun{2, 20, 2}, PageRun{4, 23, 1}));
}

TEST(KvPush, TakesOnlyTheAskedPages) {
  EXPECT_THAT(PlanPageRuns({0, 1, 2, 3}, {5, 6, 7, 8}, 1, 2), ElementsAre(PageRun{1, 6, 2}));
  EXPECT_THAT(PlanPageRuns({0, 1}, {5, 6}, 1, 0), IsEmpty());
}

TEST(KvPush, WrapsRingsOfDifferentSizes) {
  // Logical pages 3, 4, 5: slots 0, 1, 2 of a ring of three, 3, 0, 1 of a ring of four.
  EXPECT_THAT(PlanPageRuns({7, 8, 9}, {1, 2, 3, 4}, 3, 5),
              ElementsAre(PageRun{7, 4, 1}, PageRun{8, 1, 2}));
}

TEST(KvPush, HasNothingToDoForAGroupWithoutPages) {
  EXPECT_THAT(PlanPageRuns({}, {}, 0, 5), IsEmpty());
}

std::vector<LayerRun> AllRuns(const std::vector<uint8_t>& layer_group, int most) {
  std::vector<LayerRun> runs;
  for (int layer = 0; layer < static_cast<int>(layer_group.size()); ++layer) {
    const LayerRun due = LayersToPush(layer_group, layer, most);
    if (due.count == 0) continue;
    EXPECT_EQ(due.first + due.count, layer + 1) << "pushed before it is written, or late";
    runs.push_back(due);
  }
  return runs;
}

TEST(KvPush, LayersOfAGroupThatFollowEachOtherTravelTogether) {
  EXPECT_THAT(
      AllRuns({0, 1, 1, 1, 0, 1, 1, 1, 0}, 4),
      ElementsAre(LayerRun{0, 1}, LayerRun{1, 3}, LayerRun{4, 1}, LayerRun{5, 3}, LayerRun{8, 1}));
}

TEST(KvPush, TheLastLayerTravelsAlone) {
  EXPECT_THAT(AllRuns({1, 1, 1}, 4), ElementsAre(LayerRun{0, 2}, LayerRun{2, 1}));
  EXPECT_THAT(AllRuns({1}, 4), ElementsAre(LayerRun{0, 1}));
  EXPECT_THAT(AllRuns({1, 0}, 4), ElementsAre(LayerRun{0, 1}, LayerRun{1, 1}));
}

TEST(KvPush, NoMoreThanTheGivenLayersTravelTogether) {
  EXPECT_THAT(AllRuns({1, 0, 0, 0, 0, 0, 0, 0}, 3),
              ElementsAre(LayerRun{0, 1}, LayerRun{1, 3}, LayerRun{4, 3}, LayerRun{7, 1}));
  EXPECT_THAT(AllRuns({0, 0, 0, 0, 0, 0}, 2),
              ElementsAre(LayerRun{0, 2}, LayerRun{2, 2}, LayerRun{4, 1}, LayerRun{5, 1}));
  EXPECT_THAT(AllRuns({1, 1, 0}, 1), ElementsAre(LayerRun{0, 1}, LayerRun{1, 1}, LayerRun{2, 1}));
}

TEST(KvPush, FindsTheFirstPageThatAWindowSees) {
  EXPECT_EQ(FirstVisiblePage(0, 128), 0);
  EXPECT_EQ(FirstVisiblePage(190, 128), 0);  // Keys 63 to 190.
  EXPECT_EQ(FirstVisiblePage(191, 128), 1);
  EXPECT_EQ(FirstVisiblePage(8192, 4096), 64);
}

}  // namespace
}  // namespace baton::prefill
