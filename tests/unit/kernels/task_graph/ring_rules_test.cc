#include "kernels/task_graph/ring_rules.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/models/north_geometry.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

using testing::HasSubstr;

constexpr RingShape kRing = RingShape::Of(8, 1024);

ModelConfig Windowed(ModelConfig config) {
  config.window_keys = 100;
  return config;
}

RingSchedule Schedule(int worker = 0) {
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  return RingSchedule::Of(config, graph, worker, {.contexts = {}, .active_experts = 4},
                          kRing.slot_bytes);
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
        for (int slots : {3, 4, 6, 8}) {
          const auto status =
              CheckRings(config, graph, {.contexts = {0, 70, 300}, .active_experts = active},
                         RingShape::Of(slots, 8192));
          EXPECT_TRUE(status.ok())
              << named.name << ", " << workers << " workers, " << slots << " slots: " << status;
        }
      }
    }
  }
}

// Slots as the kernel's shared memory leaves them at North Mini Code's geometry. With fewer experts
// and pages than a batch has: longer runs of one task's chunks only take longer to walk
// (`decode_simulation --check-rings 1` walks the whole loads).
TEST(RingRules, AcceptsNorthMiniCodeAtEveryBatchSize) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const TaskGraph graph = TaskGraph::Build(config, 132);
  struct Batch {
    int rows, context, active, slots, slot_bytes;
  };
  for (const Batch& batch :
       {Batch{1, 8192, 8, 6, 24576}, Batch{8, 200, 10, 6, 24576}, Batch{16, 200, 10, 4, 24576},
        Batch{24, 200, 10, 6, 16384}, Batch{32, 200, 10, 3, 16384}}) {
    const auto status = CheckRings(
        config, graph,
        {.contexts = std::vector<int>(batch.rows, batch.context), .active_experts = batch.active},
        RingShape::Of(batch.slots, batch.slot_bytes));
    EXPECT_TRUE(status.ok()) << batch.rows << " rows: " << status;
  }
}

TEST(RingRules, RefusesALoaderThatLeavesNoSlotForTheOtherQueues) {
  // Attention's pages, known from the start, fill the ring; the experts before them find no slot.
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  const StepLoad load{.contexts = {2000}, .active_experts = 4};
  RingShape ring = RingShape::Of(8, 8192);
  ring.reserve = 0;
  EXPECT_THAT(std::string(CheckRings(config, graph, load, ring).message()),
              HasSubstr("the ring stops for ever"));
  ring.reserve = 1;
  EXPECT_TRUE(CheckRings(config, graph, load, ring).ok());
}

TEST(RingRules, RefusesPagesThatMayFillTheRing) {
  // The next layer's pages wait for queries that wait for this layer's weights.
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  const StepLoad load{.contexts = {2000}, .active_experts = 4};
  RingShape ring{.slot_count = 4, .slot_bytes = 8192, .reserve = 0, .most_kv = 4};
  EXPECT_THAT(std::string(CheckRings(config, graph, load, ring).message()),
              HasSubstr("chunks of pages"));
  ring.reserve = 1;
  EXPECT_TRUE(CheckRings(config, graph, load, ring).ok());
}

TEST(RingRules, RefusesLayersOutOfOrder) {
  const RingSchedule schedule = Schedule();
  std::vector<Task> tasks = schedule.tasks();
  tasks[FirstTask(tasks, OpKind::kDown, 2)].layer = 1;
  EXPECT_THAT(std::string(CheckRing({tasks, schedule.chunks()}, kRing).message()),
              HasSubstr("wanted a layer from 2"));
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

// That pages give way to experts is for speed: pages that fill the ring are pages whose queries
// come without any other chunk, as everything before them has been issued.
TEST(RingRules, PagesThatNeverGiveWayDoNotStopTheRing) {
  const ModelConfig config = Windowed(GraphConfig(4, 1, SharedExperts::kNone));
  const TaskGraph graph = TaskGraph::Build(config, 2);
  RingShape ring = RingShape::Of(6, 8192);
  ring.most_kv = ring.slot_count;
  EXPECT_TRUE(CheckRings(config, graph, {.contexts = {2000}, .active_experts = 4}, ring).ok());
}

}  // namespace
}  // namespace baton
