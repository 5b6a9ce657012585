#include "kernels/task_graph/ring_rules.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

using testing::HasSubstr;

constexpr RingShape kRing{.slot_count = 8, .slot_bytes = 1024, .reserve = 3};

ModelConfig Windowed(ModelConfig config) {
  config.window_keys = 100;
  return config;
}

// The first layers of North Mini Code; the others repeat them.
ModelConfig FirstLayers(int count) {
  ModelConfig config = NorthMiniConfig();
  config.window_keys = 4096;
  config.layer_count = count;
  config.layers.resize(count);
  return config;
}

RingSchedule Schedule(int worker = 0) {
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  return RingSchedule::Of(config, graph, worker, {.contexts = {}, .active_experts = 4}, kRing);
}

// The first of the tasks that are of `op` and `layer`.
int FirstTask(const std::vector<Task>& tasks, OpKind op, int layer) {
  const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) {
    return task.op == op && task.layer == layer;
  });
  return static_cast<int>(found - tasks.begin());
}

TEST(RingRules, AcceptsTheGraphsOfEverySmallShape) {
  for (const NamedConfig& named : SmallConfigs()) {
    const ModelConfig config = Windowed(named.config);
    for (int workers : {1, 2, 5, 40}) {
      const TaskGraph graph = TaskGraph::Build(config, workers);
      for (int active : {1, 4, 12}) {
        const RingShape ring{.slot_count = 4, .slot_bytes = 8192};
        const auto status =
            CheckRings(config, graph, {.contexts = {0, 70, 300}, .active_experts = active}, ring);
        EXPECT_TRUE(status.ok()) << named.name << ", " << workers << " workers: " << status;
      }
    }
  }
}

TEST(RingRules, AcceptsNorthMiniCodeAtOneAndEightRows) {
  const ModelConfig config = FirstLayers(9);
  const TaskGraph graph = TaskGraph::Build(config, 132);
  struct Batch {
    int rows, active, slots, slot_bytes;
  };
  for (const Batch& batch : {Batch{1, 8, 8, 24576}, Batch{8, 52, 7, 24576}}) {
    const auto status =
        CheckRings(config, graph,
                   {.contexts = std::vector<int>(batch.rows, 8192), .active_experts = batch.active},
                   {.slot_count = batch.slots, .slot_bytes = batch.slot_bytes});
    EXPECT_TRUE(status.ok()) << batch.rows << " rows: " << status;
  }
}

TEST(RingRules, RefusesALoaderThatLeavesNoSlotForTheOtherQueue) {
  // Attention's pages, known from the start, fill the ring; the experts before them find no slot.
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  const StepLoad load{.contexts = {2000}, .active_experts = 4};
  RingShape ring{.slot_count = 8, .slot_bytes = 8192, .reserve = 0};
  EXPECT_THAT(std::string(CheckRings(config, graph, load, ring).message()),
              HasSubstr("the ring stops for ever"));
  ring.reserve = 1;
  EXPECT_TRUE(CheckRings(config, graph, load, ring).ok());
}

TEST(RingRules, AcceptsPagesApartAtNorthMiniCodesSize) {
  const ModelConfig config = FirstLayers(5);
  const TaskGraph graph = TaskGraph::Build(config, 132);
  const RingShape ring{.slot_count = 8, .slot_bytes = 24576, .kv_apart = true, .kv_limit = 5};
  const auto status = CheckRings(config, graph, {.contexts = {8192}, .active_experts = 8}, ring);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RingRules, AcceptsPagesApartWithTheReserveOfEverySlotCount) {
  for (const NamedConfig& named : SmallConfigs()) {
    const ModelConfig config = Windowed(named.config);
    const TaskGraph graph = TaskGraph::Build(config, 5);
    for (int slots : {3, 4, 6, 8}) {
      const RingShape ring{.slot_count = slots,
                           .slot_bytes = 8192,
                           .reserve = std::min(3, slots - 1),
                           .kv_apart = true,
                           .kv_limit = std::max(1, slots - 3)};
      const auto status =
          CheckRings(config, graph, {.contexts = {70, 900}, .active_experts = 4}, ring);
      EXPECT_TRUE(status.ok()) << named.name << ", " << slots << " slots: " << status;
    }
  }
}

TEST(RingRules, RefusesPagesApartThatMayFillTheRing) {
  // The next layer's pages wait for queries that wait for this layer's weights.
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  const StepLoad load{.contexts = {2000}, .active_experts = 4};
  RingShape ring{.slot_count = 4, .slot_bytes = 8192, .reserve = 0, .kv_apart = true};
  ring.kv_limit = ring.slot_count;
  EXPECT_THAT(std::string(CheckRings(config, graph, load, ring).message()),
              HasSubstr("the ring stops for ever"));
  ring.reserve = 1;
  const auto status = CheckRings(config, graph, load, ring);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RingRules, RefusesAQueueThatTheRingDoesNotHave) {
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  RingShape apart{.slot_count = 8, .slot_bytes = 8192, .kv_apart = true};
  const RingSchedule schedule = RingSchedule::Of(config, graph, 0, {.contexts = {500}}, apart);
  EXPECT_TRUE(CheckRing(schedule, apart).ok());
  apart.kv_apart = false;
  EXPECT_FALSE(CheckRing(schedule, apart).ok());
}

TEST(RingRules, RefusesAWaitForWhatComesLaterInTheSameList) {
  // Attention's output is wanted before the pages are attended to.
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  for (bool apart : {false, true}) {
    const RingShape ring{.slot_count = 8, .slot_bytes = 8192, .kv_apart = apart};
    const RingSchedule schedule = RingSchedule::Of(config, graph, 0, {.contexts = {500}}, ring);
    ASSERT_TRUE(CheckRing(schedule, ring).ok());
    std::vector<Task> tasks = schedule.tasks();
    Task& qkv = tasks[FirstTask(tasks, OpKind::kQkvRope, 2)];
    qkv.waits[1] = {tasks[FirstTask(tasks, OpKind::kAttentionMerge, 2)].signal, 1};
    EXPECT_FALSE(CheckRing({tasks, schedule.chunks()}, ring).ok()) << apart;
  }
}

TEST(RingRules, RefusesARouterBehindItsOwnExperts) {
  // The layer's experts are first in line, and nothing behind the router's rows may pass them but
  // for the slots above the reserve.
  RingSchedule schedule = Schedule();
  std::vector<Task> tasks = schedule.tasks();
  std::vector<RingChunk> chunks = schedule.chunks();
  ASSERT_TRUE(CheckRing(schedule, kRing).ok());
  const int router = FirstTask(tasks, OpKind::kRouter, 1);
  const int experts = FirstTask(tasks, OpKind::kGateUp, 1);
  ASSERT_LT(router, experts);
  std::swap(tasks[router], tasks[experts]);
  // The same chunks, each with its op's new place.
  const auto place = [&](int task) {
    return task == router ? experts : task == experts ? router : task;
  };
  for (RingChunk& chunk : chunks) chunk.task = place(chunk.task);
  std::stable_sort(chunks.begin(), chunks.end(), [](const RingChunk& one, const RingChunk& other) {
    return one.task < other.task;
  });
  EXPECT_THAT(std::string(CheckRing({tasks, chunks}, kRing).message()),
              HasSubstr("GateUp, layer 1"));
}

TEST(RingRules, RefusesAChunkThatNoSlotHolds) {
  RingShape small = kRing;
  small.slot_bytes = 64;
  EXPECT_THAT(std::string(CheckRing(Schedule(), small).message()), HasSubstr("wanted 1 to 64"));
}

TEST(RingRules, RefusesChunksOutOfTaskOrder) {
  RingSchedule schedule = Schedule();
  std::vector<RingChunk> chunks = schedule.chunks();
  std::swap(chunks.front(), chunks.back());
  EXPECT_THAT(std::string(CheckRing({schedule.tasks(), chunks}, kRing).message()),
              HasSubstr("wanted a task from"));
}

TEST(RingRules, RefusesARingWithoutSlots) {
  RingShape none = kRing;
  none.slot_count = 0;
  EXPECT_FALSE(CheckRing(Schedule(), none).ok());
}

// Every smaller ring that still has the reserve and a slot is enough, and one without is not: the
// walk finds the border where the proof says it is.
TEST(RingRules, OneSlotAboveTheReserveIsEnough) {
  const ModelConfig config = Windowed(GraphConfig(5, 2, SharedExperts::kAverage));
  const TaskGraph graph = TaskGraph::Build(config, 3);
  const StepLoad load{.contexts = {500, 90}, .active_experts = 7};
  for (int reserve : {1, 2, 3}) {
    const RingShape ring{.slot_count = reserve + 1, .slot_bytes = 8192, .reserve = reserve};
    EXPECT_TRUE(CheckRings(config, graph, load, ring).ok()) << reserve;
  }
  EXPECT_FALSE(
      CheckRings(config, graph, load, {.slot_count = 4, .slot_bytes = 8192, .reserve = 0}).ok());
}

}  // namespace
}  // namespace baton
