#include "kernels/task_graph/happens_before.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

// Two workers of two tasks: worker 1's second task waits for worker 0's first.
TaskGraph CrossingGraph() {
  const GraphShape shape = GraphShape::Of(GraphConfig(1, 1, SharedExperts::kNone));
  TaskLists lists(2, std::vector<Task>(2));
  lists[0][0].signal = 1;
  lists[1][1].waits[0] = {1, 1};
  return TaskGraph(shape, lists);
}

TEST(HappensBefore, FollowsListsAndSignals) {
  const auto order = HappensBefore::Of(CrossingGraph());
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_TRUE(order->Precedes({0, 0}, {0, 1}));
  EXPECT_TRUE(order->Precedes({0, 0}, {1, 1}));
  EXPECT_TRUE(order->Precedes({1, 0}, {1, 1}));
}

TEST(HappensBefore, SeesWhatIsUnordered) {
  const auto order = HappensBefore::Of(CrossingGraph());
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_FALSE(order->Precedes({0, 0}, {1, 0}));
  EXPECT_FALSE(order->Precedes({1, 0}, {0, 1}));
  EXPECT_FALSE(order->Precedes({0, 1}, {1, 1}));
  EXPECT_FALSE(order->Precedes({1, 1}, {1, 1}));
}

TEST(HappensBefore, RefusesACircle) {
  const GraphShape shape = GraphShape::Of(GraphConfig(1, 1, SharedExperts::kNone));
  TaskLists lists(2, std::vector<Task>(1));
  lists[0][0].signal = 1;
  lists[0][0].waits[0] = {2, 1};
  lists[1][0].signal = 2;
  lists[1][0].waits[0] = {1, 1};
  const auto order = HappensBefore::Of(TaskGraph(shape, lists));
  ASSERT_FALSE(order.ok());
  EXPECT_THAT(std::string(order.status().message()), testing::HasSubstr("waits for ever"));
}

}  // namespace
}  // namespace baton
