#include "kernels/task_graph/task_graph.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/models/north_geometry.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

using testing::HasSubstr;

TEST(TaskGraph, IsTheSameEveryTime) {
  const ModelConfig config = GraphConfig(5, 1, SharedExperts::kSum);
  EXPECT_EQ(TaskGraph::Build(config, 3).DebugString(), TaskGraph::Build(config, 3).DebugString());
}

TEST(TaskGraph, DerivesThresholdsFromSignals) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(5, 1, SharedExperts::kNone), 7);
  const std::vector<uint16_t> producers = graph.ProducerCounts();
  for (const auto& list : graph.lists()) {
    for (const Task& task : list) {
      for (const TaskWait& wait : task.waits) {
        if (wait.counter == kNoCounter) continue;
        EXPECT_EQ(wait.producers, producers[wait.counter]) << TaskDebugString(task, 5);
      }
    }
  }
}

TEST(TaskGraph, SaysWhatEachTaskDoes) {
  const std::string text =
      TaskGraph::Build(GraphConfig(2, 1, SharedExperts::kNone), 2).DebugString();
  EXPECT_THAT(text, HasSubstr("worker 1: Router"));
  EXPECT_THAT(text, HasSubstr("waits x[1] >= 2"));
  EXPECT_THAT(text, HasSubstr("signals step"));
}

TEST(TaskGraph, GivesTheRouterToTheWorkersWithTheLeastOfQkvRope) {
  const TaskGraph graph = TaskGraph::Build(NorthMiniCodeGeometry(), 132);
  std::map<int, uint32_t> qkv, router;  // Units of layer 1, by worker.
  for (int worker = 0; worker < 132; ++worker) {
    for (const Task& task : graph.tasks(worker)) {
      if (task.layer != 1) continue;
      if (task.op == OpKind::kQkvRope) qkv[worker] = task.end - task.begin;
      if (task.op == OpKind::kRouter) router[worker] = task.end - task.begin;
    }
  }
  EXPECT_EQ(router.size(), 16u);  // 128 experts in units of eight.
  // 640 units of q, k and v on 132 workers: twenty own four, the others five.
  for (const auto& [worker, units] : router) {
    EXPECT_EQ(units, 1u);
    EXPECT_EQ(qkv[worker], 4u) << "worker " << worker;
  }
}

TEST(TaskGraph, HasNoTaskForAnEmptyRange) {
  // 12 units of hidden for 20 workers.
  const TaskGraph graph = TaskGraph::Build(GraphConfig(3, 1, SharedExperts::kSum), 20);
  for (const auto& list : graph.lists()) {
    for (const Task& task : list) {
      const bool shared = task.op == OpKind::kAttention || task.op == OpKind::kAttentionMerge ||
                          task.op == OpKind::kSample;
      EXPECT_EQ(task.begin < task.end, !shared) << TaskDebugString(task, 3);
    }
  }
}

}  // namespace
}  // namespace baton
