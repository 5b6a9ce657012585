#include "kernels/cuda/prefill/push_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PushPlan, JoinsPagesThatFollowEachOtherOnBothSides) {
  EXPECT_THAT(PlanPageRuns({0, 1, 2, 3, 4}, {10, 11, 20, 21, 23}, 0, 4),
              ElementsAre(PageRun{0, 10, 2}, PageRun{2, 20, 2}, PageRun{4, 23, 1}));
}

TEST(PushPlan, TakesOnlyTheAskedPages) {
  EXPECT_THAT(PlanPageRuns({0, 1, 2, 3}, {5, 6, 7, 8}, 1, 2), ElementsAre(PageRun{1, 6, 2}));
  EXPECT_THAT(PlanPageRuns({0, 1}, {5, 6}, 1, 0), IsEmpty());
}

TEST(PushPlan, WrapsRingsOfDifferentSizes) {
  // Logical pages 3, 4, 5: slots 0, 1, 2 of a ring of three, 3, 0, 1 of a ring of four.
  EXPECT_THAT(PlanPageRuns({7, 8, 9}, {1, 2, 3, 4}, 3, 5),
              ElementsAre(PageRun{7, 4, 1}, PageRun{8, 1, 2}));
}

TEST(PushPlan, HasNothingToDoForAGroupWithoutPages) {
  EXPECT_THAT(PlanPageRuns({}, {}, 0, 5), IsEmpty());
}

TEST(PushPlan, FindsTheFirstPageThatAWindowSees) {
  EXPECT_EQ(FirstVisiblePage(0, 128), 0);
  EXPECT_EQ(FirstVisiblePage(190, 128), 0);  // Keys 63 to 190.
  EXPECT_EQ(FirstVisiblePage(191, 128), 1);
  EXPECT_EQ(FirstVisiblePage(8192, 4096), 64);
}

TEST(PushPlan, ALayerWithEnoughBytesTravelsAtOnce) {
  EXPECT_THAT(PlanLayerRuns({0, 1, 1, 0}, {100, 100}, 100),
              ElementsAre(ElementsAre(LayerRun{0, 1}), ElementsAre(LayerRun{1, 1}),
                          ElementsAre(LayerRun{2, 1}), ElementsAre(LayerRun{3, 1})));
}

TEST(PushPlan, LayersOfAGroupGatherAcrossTheOtherOnes) {
  EXPECT_THAT(
      PlanLayerRuns({0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1}, {100, 50}, 200),
      ElementsAre(IsEmpty(), IsEmpty(), IsEmpty(), IsEmpty(), ElementsAre(LayerRun{0, 2}),
                  ElementsAre(LayerRun{1, 4}), IsEmpty(), IsEmpty(), IsEmpty(), IsEmpty(),
                  ElementsAre(LayerRun{8, 1}, LayerRun{6, 4}), ElementsAre(LayerRun{11, 1})));
}

TEST(PushPlan, WithTheLastLayerButOneGoesAllThatWaits) {
  EXPECT_THAT(PlanLayerRuns({0, 1, 1, 1}, {10, 10}, 1000),
              ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(LayerRun{0, 1}, LayerRun{1, 2}),
                          ElementsAre(LayerRun{3, 1})));
  EXPECT_THAT(PlanLayerRuns({1}, {10, 10}, 1000), ElementsAre(ElementsAre(LayerRun{0, 1})));
  EXPECT_THAT(PlanLayerRuns({1, 0}, {10, 10}, 1000),
              ElementsAre(ElementsAre(LayerRun{0, 1}), ElementsAre(LayerRun{1, 1})));
}

TEST(PushPlan, AGroupWithoutBytesPushesNothing) {
  EXPECT_THAT(PlanLayerRuns({0, 1, 0}, {10, 0}, 10),
              ElementsAre(ElementsAre(LayerRun{0, 1}), IsEmpty(), ElementsAre(LayerRun{2, 1})));
}

TEST(PushPlan, TheCopyEngineTakesPagesInPiecesIfLayersGather) {
  constexpr uint64_t kMib = uint64_t{1} << 20;
  const auto engine = [&](size_t runs, uint64_t layer_mib, uint64_t least_mib) {
    return EngineIsFaster({.run_count = runs, .layer_count = 13, .layer_bytes = layer_mib * kMib},
                          least_mib * kMib);
  };
  EXPECT_TRUE(engine(32, 16, 0));
  EXPECT_FALSE(engine(33, 16, 0));
  EXPECT_TRUE(engine(128, 16, 64));
  EXPECT_FALSE(engine(129, 16, 64));
  // There is no more to gather than the group has.
  EXPECT_TRUE(engine(26, 1, 64));
  EXPECT_FALSE(engine(27, 1, 64));
  // A tiny prompt is one copy.
  EXPECT_TRUE(EngineIsFaster({.run_count = 1, .layer_count = 1, .layer_bytes = 1024}, 64 * kMib));
}

TEST(PushPlan, EveryLayerTravelsOnceAfterItIsWritten) {
  std::vector<uint8_t> group;
  for (int layer = 0; layer < 49; ++layer) group.push_back(layer % 4 == 0 ? 0 : 1);
  for (const uint64_t least : {1, 30, 64, 500, 100000}) {
    std::vector<int> pushed_after(group.size(), -1);
    const auto plan = PlanLayerRuns(group, {17, 9}, least);
    for (int layer = 0; layer < 49; ++layer) {
      for (const LayerRun& run : plan[layer]) {
        int left = run.count;
        for (int member = run.first; left > 0; ++member) {
          ASSERT_LE(member, layer) << "pushed before it is written";
          if (group[member] != group[run.first]) continue;
          ASSERT_EQ(pushed_after[member], -1) << "pushed twice";
          pushed_after[member] = layer;
          --left;
        }
      }
    }
    EXPECT_THAT(pushed_after, testing::Not(testing::Contains(-1))) << least;
    EXPECT_THAT(plan.back(), ElementsAre(LayerRun{48, 1}));
  }
}

}  // namespace
}  // namespace baton::prefill
