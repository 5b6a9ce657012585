#include "kernels/task_graph/ring_schedule.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "kernels/models/north_geometry.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

uint64_t BytesOfAllWorkers(const ModelConfig& config, int workers, const StepLoad& load) {
  const TaskGraph graph = TaskGraph::Build(config, workers);
  uint64_t bytes = 0;
  for (int worker = 0; worker < workers; ++worker) {
    bytes += RingSchedule::Of(config, graph, worker, load, RingShape{}).bytes();
  }
  return bytes;
}

TEST(RingSchedule, StreamsEveryWeightOnceAndEveryPageThatIsSeen) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const uint64_t hidden = 2048, q = 4096, kv = 512, vocabulary = 262144;
  uint64_t weights = vocabulary * hidden;
  uint64_t pages = 0;
  for (const LayerConfig& layer : config.layers) {
    weights += hidden * (2 * q + 2 * kv) + 3 * hidden * layer.ffn_width * (layer.dense ? 1 : 8);
    if (!layer.dense) weights += hidden * 128;
    // Keys [0, 8192) or, of a window of 4096, those from 4097 on: 64 pages, the first in part.
    pages += layer.sliding ? 64 : 128;
  }
  const uint64_t found = BytesOfAllWorkers(config, 132, {.contexts = {8192}});
  EXPECT_EQ(found, 2 * weights + pages * 64 * 2 * kv * 2);
}

TEST(RingSchedule, KeepsTaskOrderAndFitsTheSlots) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const TaskGraph graph = TaskGraph::Build(config, 132);
  for (int rows : {8, 16, 24, 32}) {
    const RingShape ring = RingShape::For(rows, 8192);
    const RingSchedule schedule = RingSchedule::Of(config, graph, 7, {.active_experts = 52}, ring);
    const auto check = [&](const std::vector<RingChunk>& chunks, int slot_bytes, bool attention) {
      ASSERT_FALSE(chunks.empty());
      EXPECT_TRUE(std::is_sorted(
          chunks.begin(), chunks.end(),
          [](const RingChunk& one, const RingChunk& other) { return one.task < other.task; }));
      for (const RingChunk& chunk : chunks) {
        EXPECT_LE(chunk.bytes, static_cast<uint32_t>(slot_bytes));
        EXPECT_EQ(schedule.tasks[chunk.task].op == OpKind::kAttention, attention);
      }
    };
    check(schedule.weights, ring.weight_slot_bytes, false);
    check(schedule.kv, ring.kv_slot_bytes, true);
  }
}

// The kernel's own sizes: 48 k-steps of 512 bytes fit 24 KiB; 64 is the most of a chunk, 48 of one
// that all warps share.
TEST(RingSchedule, CutsTilesAsTheKernelDoes) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const TaskGraph graph = TaskGraph::Build(config, 132);
  const RingSchedule schedule =
      RingSchedule::Of(config, graph, 0, {.contexts = {}, .active_experts = 1}, RingShape{});
  const auto sizes = [&](OpKind op) {
    std::vector<uint32_t> bytes;
    for (const RingChunk& chunk : schedule.weights) {
      const Task& task = schedule.tasks[chunk.task];
      if (task.op == op && task.layer == 1) bytes.push_back(chunk.bytes);
    }
    return bytes;
  };
  // Four units of 2048 columns; one unit of 4096; five rows of gate and up; one unit of 768.
  EXPECT_EQ(sizes(OpKind::kQkvRope),
            (std::vector<uint32_t>{24576, 24576, 16384, 24576, 24576, 16384}));
  EXPECT_EQ(sizes(OpKind::kOutputProj),
            (std::vector<uint32_t>{12288, 12288, 12288, 12288, 12288, 4096}));
  EXPECT_EQ(sizes(OpKind::kGateUp), (std::vector<uint32_t>{20480, 20480}));
  EXPECT_EQ(sizes(OpKind::kDown), std::vector<uint32_t>{12288});
}

TEST(RingSchedule, GivesEverySplitOfARowToOneWorker) {
  // Pages of all workers' attention tasks, whatever the batch.
  const ModelConfig config = NorthMiniCodeGeometry();
  const StepLoad none{.contexts = {0, 0, 0}}, some{.contexts = {100, 0, 5000}};
  const uint64_t tile = 64 * 128 * 2;
  const uint64_t difference =
      BytesOfAllWorkers(config, 132, some) - BytesOfAllWorkers(config, 132, none);
  uint64_t pages = 0;
  for (const LayerConfig& layer : config.layers) {
    // Of 5000 keys the window leaves those from 905 on: pages 14 to 78.
    pages += 2 + (layer.sliding ? 65 : 79);
  }
  EXPECT_EQ(difference, pages * tile * 2 * 4);
}

}  // namespace
}  // namespace baton
