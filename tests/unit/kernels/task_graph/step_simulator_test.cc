#include "kernels/task_graph/step_simulator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

constexpr RingShape kSlots{.slot_count = 7, .slot_bytes = 24576};

ModelConfig WindowedNorth() {
  ModelConfig config = NorthMiniConfig();
  config.window_keys = 4096;
  return config;
}

StepPrediction Predicted(const StepLoad& load, const DeviceConstants& device = {},
                         const RingShape& ring = kSlots) {
  static const ModelConfig config = WindowedNorth();
  static const TaskGraph graph = TaskGraph::Build(config, 132);
  const auto prediction = PredictStep(config, graph, load, ring, device);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  return prediction.ok() ? *prediction : StepPrediction{};
}

// Everything but the stream costs nothing.
DeviceConstants OnlyMemory() {
  return {.load_latency_us = 0,
          .publish_us = 0,
          .hop_us = 0,
          .norm_us = 0,
          .routing_us = 0,
          .task_us = 0,
          .consume_bytes_per_us = {1e12, 1e12, 1e12, 1e12},
          .launch_us = 0};
}

TEST(StepSimulator, IsNearTheStreamWhereNothingElseCosts) {
  const StepPrediction step = Predicted({.contexts = {8192}, .active_experts = 8}, OnlyMemory());
  EXPECT_NEAR(step.bytes * 1e-9, 7.13, 0.02);
  // Workers own a little more or less than their share.
  EXPECT_GE(step.step_us, step.stream_us);
  EXPECT_LE(step.step_us, 1.15 * step.stream_us);
}

TEST(StepSimulator, SlowerHopsConsumersAndStreamsTakeLonger) {
  const StepLoad load{.contexts = {8192}, .active_experts = 8};
  const double usual = Predicted(load).step_us;
  DeviceConstants device;
  device.hop_us *= 3;
  EXPECT_GT(Predicted(load, device).step_us, usual + 49 * 2 * device.hop_us / 3);
  device = {};
  device.stream_bytes_per_second /= 4;
  EXPECT_GT(Predicted(load, device).step_us, 1.5 * usual);
  device = {};
  for (double& rate : device.consume_bytes_per_us) rate /= 4;
  EXPECT_GT(Predicted(load, device).step_us, 2 * usual);
}

TEST(StepSimulator, MoreRowsReadMoreExpertsAndTakeLonger) {
  const StepPrediction one = Predicted({.contexts = {8192}, .active_experts = 8});
  const StepPrediction eight =
      Predicted({.contexts = std::vector<int>(8, 8192), .active_experts = 52});
  EXPECT_NEAR(eight.bytes * 1e-9, 30.5, 0.3);
  EXPECT_GT(eight.step_us, 3 * one.step_us);
}

TEST(StepSimulator, AShallowRingCostsTime) {
  // With fast consumers: what the ring holds bridges the hops.
  const StepLoad load{.contexts = {8192}, .active_experts = 8};
  DeviceConstants device;
  device.consume_bytes_per_us = {1e6, 1e6, 1e6, 1e6};
  RingShape shallow = kSlots;
  shallow.slot_count = 4;
  EXPECT_GT(Predicted(load, device, shallow).step_us, 1.02 * Predicted(load, device).step_us);
}

TEST(StepSimulator, SharesAddUp) {
  const StepPrediction step = Predicted({.contexts = {8192, 100}, .active_experts = 16});
  const double sum =
      step.busy + step.wait_memory + step.wait_routing + step.wait_join + step.wait_other;
  EXPECT_LE(sum, 1.0 + 1e-9);
  EXPECT_GT(sum, 0.9);
}

TEST(StepSimulator, NamesTheTaskThatWaitsForEver) {
  const ModelConfig config = WindowedNorth();
  TaskLists waiting = TaskGraph::Build(config, 4).lists();
  for (Task& task : waiting[1]) {
    if (task.op == OpKind::kQkvRope && task.layer == 3) {
      task.waits[1] = {CounterId(CounterKind::kHidden, 3, 49), 4};
    }
  }
  const auto circle = PredictStep(config, TaskGraph(GraphShape::Of(config), waiting),
                                  {.active_experts = 8}, kSlots);
  EXPECT_EQ(circle.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(circle.status().message()), testing::HasSubstr("stops for ever"));
}

TEST(StepSimulator, RefusesABatchOfNoRows) {
  const ModelConfig config = WindowedNorth();
  const TaskGraph graph = TaskGraph::Build(config, 4);
  EXPECT_FALSE(PredictStep(config, graph, {.contexts = {}}, kSlots).ok());
  EXPECT_FALSE(PredictStep(config, graph, {.contexts = std::vector<int>(33, 1)}, kSlots).ok());
}

TEST(StepSimulator, ExpectsAsManyDistinctExpertsAsDrawingGives) {
  EXPECT_EQ(ExpectedDistinctExperts(1, 8, 128), 8);
  EXPECT_EQ(ExpectedDistinctExperts(8, 8, 128), 52);
  EXPECT_EQ(ExpectedDistinctExperts(32, 8, 128), 112);
  EXPECT_EQ(ExpectedDistinctExperts(8, 8, 27), 25);
  EXPECT_EQ(ExpectedDistinctExperts(8, 8, 0), 0);
}

}  // namespace
}  // namespace baton
