#include "kernels/task_graph/task_parts.h"

#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

TEST(TaskParts, TaskByTaskThePartsAreTheTasks) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kAverage), 3);
  const std::vector<TaskPart> parts = PartsOf(graph, 1, ListOrder::kTaskByTask);
  ASSERT_EQ(parts.size(), graph.tasks(1).size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].task, static_cast<int>(i));
    EXPECT_EQ(parts[i].signal, graph.tasks(1)[i].signal);
  }
}

TEST(TaskParts, ByRoleEverySignalAndEveryWriteIsSomePartsAndOnlyOne) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kAverage), 3);
  for (int worker = 0; worker < 3; ++worker) {
    std::vector<int> signals(graph.tasks(worker).size()), writes(graph.tasks(worker).size());
    for (const TaskPart& part : PartsOf(graph, worker, ListOrder::kByRole)) {
      signals[part.task] += part.signal != kNoCounter;
      for (const BufferAccess& write : AccessesOf(graph, worker, part, ListOrder::kByRole).writes) {
        writes[part.task] +=
            write.buffer != Buffer::kExpertList && write.buffer != Buffer::kChoices;
      }
    }
    for (size_t i = 0; i < signals.size(); ++i) {
      EXPECT_EQ(signals[i], graph.tasks(worker)[i].signal == kNoCounter ? 0 : 1);
      EXPECT_EQ(writes[i], 1) << OpName(graph.tasks(worker)[i].op);
    }
  }
}

TEST(TaskParts, ByRoleWhatIsRoutedWaitsForTheListInsteadOfTheRouter) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kNone), 2);
  const std::vector<TaskPart> parts = PartsOf(graph, 0, ListOrder::kByRole);
  const uint16_t router = CounterId(CounterKind::kRouter, 2, 4);
  int routings = 0, routed = 0;
  const auto tasks = graph.tasks(0);
  for (const TaskPart& part : parts) {
    const Task& task = tasks[part.task];
    if (task.layer != 2) continue;
    if (part.routing) {
      ++routings;
      ASSERT_EQ(part.waits.size(), 1u);
      EXPECT_EQ(part.waits[0].counter, router);
    }
    if (!IsRouted(task.op) || part.role != Role::kMultiply) continue;
    ++routed;
    ASSERT_GE(part.after, 0);
    EXPECT_TRUE(parts[part.after].routing);
    for (const TaskWait& wait : part.waits) EXPECT_NE(wait.counter, router);
  }
  EXPECT_EQ(routings, 1);
  EXPECT_EQ(routed, 2);  // GateUp and Down.
}

TEST(TaskParts, ByRoleRoutingComesBehindTheProductsOfTheLayersBefore) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kNone), 2);
  const std::vector<TaskPart> parts = PartsOf(graph, 1, ListOrder::kByRole);
  const auto tasks = graph.tasks(1);
  int routings = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].routing) continue;
    ++routings;
    int last = -1;
    for (size_t j = 0; j < i; ++j) {
      if (parts[j].role == Role::kMultiply &&
          tasks[parts[j].task].layer < tasks[parts[i].task].layer)
        last = static_cast<int>(j);
    }
    EXPECT_EQ(parts[i].behind, last);
    EXPECT_EQ(last < 0, tasks[parts[i].task].layer == 0);
  }
  EXPECT_EQ(routings, 4);
}

}  // namespace
}  // namespace baton
