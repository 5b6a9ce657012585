#include "kernels/task_graph/ownership_rules.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/task_graph/task_graph_builder.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

std::string OwnershipError(void (*change)(Task& task)) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(3, 1, SharedExperts::kNone), 3);
  TaskLists lists = graph.lists();
  for (Task& task : lists[1]) {
    if (task.layer == 1) change(task);
  }
  return std::string(CheckOwnership(TaskGraph(graph.shape(), lists)).message());
}

TEST(OwnershipRules, RefusesAGap) {
  EXPECT_THAT(
      OwnershipError([](Task& task) {
        if (task.op == OpKind::kQkvRope) ++task.begin;
      }),
      testing::HasSubstr("QkvRope of layer 1 part 0: wanted a range that begins at unit 13"));
}

TEST(OwnershipRules, RefusesAnOverlap) {
  EXPECT_THAT(OwnershipError([](Task& task) {
                if (task.op == OpKind::kGateUp && task.part == kRoutedExperts) ++task.end;
              }),
              testing::HasSubstr("GateUp of layer 1"));
}

TEST(OwnershipRules, RefusesToMoveWhatIsKeptLocally) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(3, 1, SharedExperts::kNone), 2);
  TaskLists lists = graph.lists();
  UnitRange first;
  for (Task& task : lists[0]) {
    if (task.op == OpKind::kDown && task.layer == 1) first = {task.begin, task.end};
  }
  for (auto& list : lists) {
    for (Task& task : list) {
      if (task.op != OpKind::kDown || task.layer != 1) continue;
      // The two workers' ranges change places.
      const bool is_first = task.begin == first.begin;
      task.begin = is_first ? first.end : first.begin;
      task.end = is_first ? graph.shape().hidden_units : first.end;
    }
  }
  EXPECT_THAT(std::string(CheckOwnership(TaskGraph(graph.shape(), lists)).message()),
              testing::HasSubstr("wanted the same owners of OutputProj"));
}

}  // namespace
}  // namespace baton
