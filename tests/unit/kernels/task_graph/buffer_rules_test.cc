#include "kernels/task_graph/buffer_rules.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

// What CheckBuffers says of the lists; their signals need not pass the other rules.
std::string BufferError(const GraphShape& shape, const TaskLists& lists,
                        ListOrder list_order = ListOrder::kTaskByTask) {
  const TaskGraph graph(shape, lists);
  const auto order = HappensBefore::Of(graph, list_order);
  EXPECT_TRUE(order.ok()) << order.status();
  return std::string(CheckBuffers(graph, *order).message());
}

TEST(BufferRules, RefusesAReadThatDoesNotWait) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kNone), 2);
  TaskLists lists = graph.lists();
  for (Task& task : lists[1]) {
    if (task.op == OpKind::kAttention && task.layer == 2) task.waits[0] = {};
  }
  EXPECT_EQ(BufferError(graph.shape(), graph.lists()), "");
  EXPECT_THAT(BufferError(graph.shape(), lists),
              testing::HasSubstr("qkv copy 0 is read before it is all written"));
}

TEST(BufferRules, RefusesToOverwriteWhatIsStillRead) {
  // Without its wait for x, a layer's QkvRope may run while the layer before still attends.
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 4, SharedExperts::kNone), 2);
  TaskLists lists = graph.lists();
  for (auto& list : lists) {
    for (Task& task : list) {
      if (task.op == OpKind::kAttentionMerge && task.layer == 1) task.waits[0] = {};
      if (task.op == OpKind::kOutputProj && task.layer == 1) task.waits[0] = {};
      if (task.op == OpKind::kDown && task.layer == 1) task.waits[0] = {};
      if (task.op == OpKind::kQkvRope && task.layer == 2) task.waits[0] = {};
    }
  }
  EXPECT_THAT(BufferError(graph.shape(), lists), testing::HasSubstr("worker"));
}

// One worker needs no counters where it does task by task; its roles do.
TEST(BufferRules, ByRoleAnotherRolesProductsMustBeWaitedFor) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kAverage), 1);
  EXPECT_EQ(BufferError(graph.shape(), graph.lists(), ListOrder::kByRole), "");
  const struct {
    OpKind op;
    const char* error;
  } cases[] = {
      {OpKind::kAttention, "qkv copy 0 is read before it is all written"},
      {OpKind::kOutputProj, "qkv copy 0 is overwritten before its readers are done"},
      {OpKind::kDown, "hidden copy 2 is read before it is all written"},
      {OpKind::kQkvRope, "x copy 2 is read before it is all written"},
  };
  for (const auto& wanted : cases) {
    TaskLists lists = graph.lists();
    for (Task& task : lists[0]) {
      if (task.op != wanted.op || task.layer != 2) continue;
      task.waits[0] = {};
      // Nothing else orders x: the router's product is the same role's.
      if (wanted.op == OpKind::kQkvRope) (&task - 1)->waits[0] = {};
    }
    EXPECT_EQ(BufferError(graph.shape(), lists), "") << OpName(wanted.op);
    EXPECT_THAT(BufferError(graph.shape(), lists, ListOrder::kByRole),
                testing::HasSubstr(wanted.error));
  }
}

TEST(BufferRules, RefusesAListThatGoesOnAfterTheStep) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(2, 1, SharedExperts::kNone), 2);
  TaskLists lists = graph.lists();
  std::swap(lists[0].back(), lists[0][lists[0].size() - 2]);
  lists[0][lists[0].size() - 2].waits[0] = {};
  EXPECT_NE(BufferError(graph.shape(), lists), "");
}

}  // namespace
}  // namespace baton
