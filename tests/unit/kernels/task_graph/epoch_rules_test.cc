#include "kernels/task_graph/epoch_rules.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/models/north_geometry.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

using testing::HasSubstr;

TEST(EpochRules, ComparesAcrossTheWrap) {
  EXPECT_TRUE(HasReached(5, 5));
  EXPECT_TRUE(HasReached(3, 0xfffffffeu));  // Five signals on, past the wrap.
  EXPECT_FALSE(HasReached(0xfffffffeu, 3));
  EXPECT_FALSE(HasReached(4, 5));
}

TEST(EpochRules, AcceptsEveryShape) {
  for (const NamedConfig& named : SmallConfigs()) {
    for (int workers : {1, 3, 132}) {
      EXPECT_TRUE(CheckEpochs(TaskGraph::Build(named.config, workers)).ok()) << named.name;
    }
  }
  EXPECT_TRUE(CheckEpochs(TaskGraph::Build(NorthMiniCodeGeometry(), 132)).ok());
}

TEST(EpochRules, RefusesEveryOtherThreshold) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(3, 1, SharedExperts::kNone), 4);
  int mutants = 0;
  for (int worker = 0; worker < 4; ++worker) {
    for (size_t i = 0; i < graph.tasks(worker).size(); ++i) {
      for (int w = 0; w < 2; ++w) {
        const TaskWait& wait = graph.tasks(worker)[i].waits[w];
        if (wait.counter == kNoCounter) continue;
        for (int wrong : {wait.producers - 1, wait.producers + 1, 2 * wait.producers}) {
          TaskLists lists = graph.lists();
          lists[worker][i].waits[w].producers = static_cast<uint16_t>(wrong);
          EXPECT_FALSE(CheckEpochs(TaskGraph(graph.shape(), lists)).ok())
              << TaskDebugString(lists[worker][i], 3);
          ++mutants;
        }
      }
    }
  }
  EXPECT_GT(mutants, 200);
}

TEST(EpochRules, SaysWhichStepGoesWrong) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(3, 1, SharedExperts::kNone), 4);
  TaskLists lists = graph.lists();
  for (Task& task : lists[1]) {
    if (task.op == OpKind::kAttention && task.layer == 1) --task.waits[0].producers;
  }
  const std::string early(CheckEpochs(TaskGraph(graph.shape(), lists)).message());
  EXPECT_THAT(early, HasSubstr("goes on before the last signal of step 1"));
  // A signal too few: the wait is one too many from the first step on.
  lists = graph.lists();
  for (Task& task : lists[2]) {
    if (task.op == OpKind::kAttention && task.layer == 1) task.signal = kNoCounter;
  }
  EXPECT_THAT(std::string(CheckEpochs(TaskGraph(graph.shape(), lists)).message()),
              HasSubstr("waits for ever in step 1"));
}

}  // namespace
}  // namespace baton
