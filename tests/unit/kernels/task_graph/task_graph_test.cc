#include "kernels/task_graph/task_graph.h"

#include <set>

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

TEST(TaskGraph, GivesTheRouterToTheLeastBusyWorkers) {
  const TaskGraph graph = TaskGraph::Build(NorthMiniCodeGeometry(), 132);
  std::set<int> owners;
  for (int worker = 0; worker < 132; ++worker) {
    for (const Task& task : graph.tasks(worker)) {
      if (task.layer == 1 && task.op == OpKind::kRouter) owners.insert(worker);
    }
  }
  EXPECT_EQ(owners.size(), 16u);  // 128 experts in units of eight.
  // 256 units of down on 132 workers: eight own one, the others two.
  int light_owners = 0;
  int light_workers = 0;
  for (int worker = 0; worker < 132; ++worker) {
    for (const Task& task : graph.tasks(worker)) {
      if (task.layer != 1 || task.op != OpKind::kDown || task.end - task.begin != 1) continue;
      ++light_workers;
      light_owners += static_cast<int>(owners.count(worker));
    }
  }
  EXPECT_EQ(light_workers, 8);
  EXPECT_EQ(light_owners, 8);
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
