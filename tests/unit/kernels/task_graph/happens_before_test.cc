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

TEST(HappensBefore, RefusesAWaitForWhatComesLaterInTheSameList) {
  // Queries wait for the output of the attention that they are for.
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kNone), 2);
  TaskLists lists = graph.lists();
  for (Task& task : lists[0]) {
    if (task.op == OpKind::kQkvRope && task.layer == 2)
      task.waits[1] = {CounterId(CounterKind::kMerged, 2, 4), 2};
  }
  for (ListOrder list_order : {ListOrder::kTaskByTask, ListOrder::kByRole}) {
    EXPECT_TRUE(HappensBefore::Of(graph, list_order).ok());
    EXPECT_FALSE(HappensBefore::Of(TaskGraph(graph.shape(), lists), list_order).ok());
  }
}

// A product's finishing part keeps its role's order and is not waited for by the next product. A
// multiplying warp knows of the others that they have left the layer before, and no more.
TEST(HappensBefore, ByRoleOnlyPartsOfOneRoleFollowTheList) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(2, 2, SharedExperts::kNone), 1);
  const auto order = HappensBefore::Of(graph, ListOrder::kByRole);
  ASSERT_TRUE(order.ok()) << order.status();
  const auto part_of = [&](OpKind op, Role role, int layer) {
    const std::vector<TaskPart>& parts = order->parts(0);
    const auto tasks = graph.tasks(0);
    for (size_t i = 0; i < parts.size(); ++i) {
      const Task& task = tasks[parts[i].task];
      if (task.op == op && task.layer == layer && parts[i].role == role && !parts[i].routing)
        return PartRef{0, static_cast<int>(i)};
    }
    return PartRef{0, -1};
  };
  const PartRef multiply = part_of(OpKind::kQkvRope, Role::kMultiply, 0);
  const PartRef finish = part_of(OpKind::kQkvRope, Role::kFinish, 0);
  const PartRef gate_up = part_of(OpKind::kGateUp, Role::kMultiply, 0);
  const PartRef attend = part_of(OpKind::kAttention, Role::kAttend, 0);
  const PartRef output = part_of(OpKind::kOutputProj, Role::kMultiply, 0);
  EXPECT_FALSE(order->Precedes(multiply, gate_up));
  EXPECT_FALSE(order->Precedes(gate_up, multiply));
  EXPECT_FALSE(order->Precedes(finish, gate_up));
  EXPECT_FALSE(order->Precedes(multiply, finish));  // Tile by tile.
  EXPECT_TRUE(order->Precedes(multiply, part_of(OpKind::kGateUp, Role::kFinish, 0)));
  EXPECT_TRUE(order->Precedes(finish, attend));  // By the counter.
  EXPECT_FALSE(order->Precedes(gate_up, attend));
  EXPECT_FALSE(order->Precedes(attend, gate_up));
  EXPECT_TRUE(order->Precedes(attend, output));
  EXPECT_TRUE(order->Precedes(finish, part_of(OpKind::kGateUp, Role::kFinish, 0)));
  EXPECT_TRUE(order->Precedes(gate_up, part_of(OpKind::kQkvRope, Role::kMultiply, 1)));
}

}  // namespace
}  // namespace baton
