#include "kernels/task_graph/ring_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/models/distinct_experts.h"
#include "kernels/models/north_geometry.h"
#include "kernels/task_graph/happens_before.h"
#include "kernels/task_graph/step_simulator.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

using testing::HasSubstr;

constexpr RingShape kSmallRings = {.weight_slot_bytes = 1024, .kv_slot_bytes = 4096};

ModelConfig Windowed(ModelConfig config) {
  config.window_keys = 100;
  return config;
}

RingSchedule SmallSchedule() {
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  return RingSchedule::Of(config, TaskGraph::Build(config, 2), 0,
                          {.contexts = {300}, .active_experts = 4}, kSmallRings);
}

std::string RingError(const RingSchedule& schedule, const RingShape& ring = kSmallRings) {
  return std::string(CheckRing(schedule, ring).message());
}

// The first of the tasks that are of `op` and `layer`.
Task& FirstTask(std::vector<Task>& tasks, OpKind op, int layer) {
  return *std::find_if(tasks.begin(), tasks.end(),
                       [&](const Task& task) { return task.op == op && task.layer == layer; });
}

TEST(RingRules, AcceptsTheGraphsOfEverySmallShape) {
  for (const NamedConfig& named : SmallConfigs()) {
    const ModelConfig config = Windowed(named.config);
    for (int workers : {1, 2, 5, 40}) {
      const TaskGraph graph = TaskGraph::Build(config, workers);
      for (int active : {1, 4, 12}) {
        const auto status = CheckRings(
            config, graph, {.contexts = {0, 70, 300}, .active_experts = active}, kSmallRings);
        EXPECT_TRUE(status.ok()) << named.name << ", " << workers << " workers: " << status;
      }
    }
  }
}

TEST(RingRules, AcceptsNorthMiniCodeAtEveryBatchSize) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const TaskGraph graph = TaskGraph::Build(config, 132);
  for (int rows : {1, 8, 16, 24, 32}) {
    const auto active = static_cast<int>(std::lround(ExpectedDistinctExperts(rows, 8, 128)));
    const StepLoad load{.contexts = std::vector<int>(rows, 8192), .active_experts = active};
    const auto status = CheckRings(config, graph, load, RingShape::For(rows, 8192));
    EXPECT_TRUE(status.ok()) << rows << " rows: " << status;
  }
}

TEST(RingRules, RefusesARouterBehindItsOwnExperts) {
  // The experts' chunks are not known before the routing, and the router's would go out after them.
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  TaskLists lists = graph.lists();
  std::swap(FirstTask(lists[0], OpKind::kRouter, 1), FirstTask(lists[0], OpKind::kGateUp, 1));
  const StepLoad load{.contexts = {300}, .active_experts = 4};
  EXPECT_TRUE(CheckRings(config, graph, load, kSmallRings).ok());
  EXPECT_THAT(
      std::string(CheckRings(config, TaskGraph(graph.shape(), lists), load, kSmallRings).message()),
      HasSubstr("waits for ever in GateUp"));
}

TEST(RingRules, RefusesChunksOutOfTaskOrder) {
  for (auto chunks : {&RingSchedule::weights, &RingSchedule::kv}) {
    RingSchedule schedule = SmallSchedule();
    ASSERT_EQ(RingError(schedule), "");
    std::swap((schedule.*chunks).front(), (schedule.*chunks).back());
    EXPECT_THAT(RingError(schedule), HasSubstr("wanted a task from"));
    schedule = SmallSchedule();
    (schedule.*chunks).back().task = static_cast<int>(schedule.tasks.size());
    EXPECT_THAT(RingError(schedule), HasSubstr("wanted a task from"));
  }
}

TEST(RingRules, RefusesAChunkThatNoSlotHolds) {
  RingSchedule schedule = SmallSchedule();
  schedule.weights[5].bytes = 1025;
  EXPECT_THAT(RingError(schedule), HasSubstr("weights chunk 5: wanted 1 to 1024 bytes"));
  schedule = SmallSchedule();
  schedule.kv[2].bytes = 4097;
  EXPECT_THAT(RingError(schedule), HasSubstr("kv chunk 2: wanted 1 to 4096 bytes"));
  schedule.kv[2].bytes = 0;
  EXPECT_THAT(RingError(schedule), HasSubstr("found 0"));
  RingShape small = kSmallRings;
  small.kv_slot_bytes = 2048;
  EXPECT_THAT(RingError(SmallSchedule(), small), HasSubstr("kv chunk 0"));
}

TEST(RingRules, RefusesAChunkInTheOtherRolesRing) {
  RingSchedule schedule = SmallSchedule();
  schedule.weights.insert(schedule.weights.end(), schedule.kv.back());
  schedule.weights.back().bytes = 16;
  std::stable_sort(
      schedule.weights.begin(), schedule.weights.end(),
      [](const RingChunk& one, const RingChunk& other) { return one.task < other.task; });
  EXPECT_THAT(RingError(schedule), HasSubstr("no role takes it for Attention"));
  schedule = SmallSchedule();
  schedule.kv.push_back(schedule.weights.back());
  EXPECT_THAT(RingError(schedule), HasSubstr("no role takes it for LmHead"));
  schedule.kv.back().task = static_cast<int>(schedule.tasks.size()) - 1;
  EXPECT_THAT(RingError(schedule), HasSubstr("no role takes it for Sample"));
}

TEST(RingRules, RefusesExpertsOfALayerThatNothingRoutes) {
  RingSchedule schedule = SmallSchedule();
  schedule.kv.clear();
  FirstTask(schedule.tasks, OpKind::kAttention, 2).layer = 1;
  EXPECT_THAT(RingError(schedule), HasSubstr("nothing routes layer 2"));
}

TEST(RingRules, RefusesARingWithoutSlots) {
  for (auto slots : {&RingShape::weight_slots, &RingShape::kv_slots}) {
    RingShape ring = kSmallRings;
    ring.in_flight_chunks = 1;
    ring.*slots = 0;
    EXPECT_THAT(RingError(SmallSchedule(), ring), HasSubstr("wanted a slot or more"));
    ring.*slots = 1;
    EXPECT_EQ(RingError(SmallSchedule(), ring), "");
  }
}

TEST(RingRules, RefusesMoreChunksInFlightThanSlots) {
  RingShape ring = kSmallRings;
  for (int chunks : {0, ring.weight_slots + 1}) {
    ring.in_flight_chunks = chunks;
    EXPECT_THAT(RingError(SmallSchedule(), ring),
                HasSubstr(absl::StrCat("wanted 1 to ", ring.weight_slots, " chunks in flight")));
  }
  ring.in_flight_chunks = ring.weight_slots;
  EXPECT_EQ(RingError(SmallSchedule(), ring), "");
}

// A task moved, or a wait for another counter added.
TaskLists Mutant(const TaskGraph& graph, std::mt19937& random) {
  TaskLists lists = graph.lists();
  auto& list = lists[random() % lists.size()];
  // Neither the first, Embed, nor the last, Sample: the simulator does not walk these by list.
  const size_t index = 1 + random() % (list.size() - 2);
  if (random() % 2 == 0) {
    std::swap(list[index], list[std::min(index + 1 + random() % 6, list.size() - 2)]);
  } else {
    const auto counter = static_cast<uint16_t>(random() % graph.counter_count());
    list[index].waits[1] = {counter, graph.ProducerCounts()[counter]};
  }
  return lists;
}

// The claim that lets CheckRings leave out the rings: the simulator, which does run every chunk
// through slots, stops for exactly the graphs that HappensBefore refuses, however many slots.
TEST(RingRules, RingsOfAnySizeStopForTheGraphsWithACircleAndForNoOther) {
  std::mt19937 random(20261129);
  int stopped = 0, ran = 0;
  for (const NamedConfig& named : SmallConfigs()) {
    const ModelConfig config = Windowed(named.config);
    const TaskGraph graph = TaskGraph::Build(config, 3);
    for (int mutant = 0; mutant < 60; ++mutant) {
      const TaskGraph changed(graph.shape(), Mutant(graph, random));
      const bool runs = HappensBefore::Of(changed, ListOrder::kByRole).ok();
      ++(runs ? ran : stopped);
      for (int slots : {1, 2, 5}) {
        RingShape ring = kSmallRings;
        ring.weight_slots = ring.kv_slots = slots;
        ring.in_flight_chunks = std::min(slots, 3);
        const auto step =
            PredictStep(config, changed, {.contexts = {300, 70}, .active_experts = 4}, ring);
        EXPECT_EQ(step.ok(), runs)
            << named.name << ", mutant " << mutant << ", " << slots << " slots: " << step.status();
      }
    }
  }
  std::printf("  %d graphs stopped, %d ran\n", stopped, ran);
  EXPECT_GT(stopped, 40);
  EXPECT_GT(ran, 40);
}

}  // namespace
}  // namespace baton
