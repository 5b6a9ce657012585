#include "kernels/task_graph/signal_rules.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

TEST(SignalRules, RefusesASignalMoreThanThresholdsCount) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(3, 1, SharedExperts::kNone), 2);
  TaskLists lists = graph.lists();
  for (Task& task : lists[0]) {
    if (task.op == OpKind::kOutputProj)
      task.signal = CounterId(CounterKind::kMerged, task.layer, 3);
  }
  EXPECT_TRUE(CheckSignals(graph).ok());
  EXPECT_FALSE(CheckSignals(TaskGraph(graph.shape(), lists)).ok());
}

TEST(SignalRules, FindsTheLastGateUpOfALayer) {
  const std::vector<Task> tasks = {{.op = OpKind::kGateUp, .layer = 1},
                                   {.op = OpKind::kAttention, .layer = 1},
                                   {.op = OpKind::kGateUp, .part = 1, .layer = 1},
                                   {.op = OpKind::kGateUp, .layer = 2}};
  EXPECT_FALSE(IsLastGateUp(tasks, 0));
  EXPECT_FALSE(IsLastGateUp(tasks, 1));
  EXPECT_TRUE(IsLastGateUp(tasks, 2));
  EXPECT_TRUE(IsLastGateUp(tasks, 3));
}

}  // namespace
}  // namespace baton
