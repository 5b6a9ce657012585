#include "kernels/task_graph/step_simulator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/models/north_geometry.h"
#include "tests/bench/measured_steps.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

constexpr RingShape kRings = RingShape::For(8, 8192);

constexpr int kLayers = 9;  // Enough to see; the others repeat them.

StepPrediction Predicted(const StepLoad& load, const DeviceConstants& device = {},
                         const RingShape& ring = kRings) {
  static const ModelConfig config = NorthMiniCodeGeometry(kLayers);
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
          .sole_norm_us = 0,
          .task_us = 0,
          .finish_us = 0,
          .chunk_us = 0,
          .multiply_us = 0,
          .row_tile_us = 0,
          .operands_us = 0,
          .routing_us = 0,
          .attend_row_us = 0,
          .attend_bytes_per_us = 1e12,
          .merge_us = 0,
          .launch_us = 0};
}

TEST(StepSimulator, IsNearTheStreamWhereNothingElseCosts) {
  const ModelConfig config = NorthMiniCodeGeometry(49);
  const auto prediction =
      PredictStep(config, TaskGraph::Build(config, 132), {.contexts = {8192}, .active_experts = 8},
                  kRings, OnlyMemory());
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  const StepPrediction& step = *prediction;
  EXPECT_NEAR(step.bytes * 1e-9, 7.13, 0.02);
  // Workers own a little more or less than their share.
  EXPECT_GE(step.step_us, step.stream_us - 1);
  EXPECT_LE(step.step_us, 1.15 * step.stream_us);
}

TEST(StepSimulator, SlowerHopsConsumersAndStreamsTakeLonger) {
  const StepLoad load{.contexts = {8192}, .active_experts = 8};
  const double usual = Predicted(load).step_us;
  DeviceConstants device;
  device.hop_us *= 3;
  // x, hidden: each layer waits for them, whatever hides the others.
  EXPECT_GT(Predicted(load, device).step_us, usual + kLayers * 2 * device.hop_us / 3);
  device = {};
  device.stream_bytes_per_second /= 4;
  EXPECT_GT(Predicted(load, device).step_us, 1.5 * usual);
  device = {};
  device.multiply_us *= 4;
  device.row_tile_us *= 4;
  EXPECT_GT(Predicted(load, device).step_us, 2 * usual);
}

TEST(StepSimulator, MoreRowsReadMoreExpertsAndTakeLonger) {
  const StepPrediction one = Predicted({.contexts = {8192}, .active_experts = 8});
  const StepPrediction eight =
      Predicted({.contexts = std::vector<int>(8, 8192), .active_experts = 52});
  EXPECT_GT(eight.bytes, 2 * one.bytes);
  EXPECT_GT(eight.step_us, 2 * one.step_us);
}

TEST(StepSimulator, AShallowRingCostsTime) {
  // With fast consumers: what the ring holds, and what is under way to it, bridges the hops.
  const StepLoad load{.contexts = {8192}, .active_experts = 8};
  DeviceConstants device;
  device.chunk_us = device.multiply_us = device.row_tile_us = 0;
  const double usual = Predicted(load, device).step_us;
  RingShape shallow = kRings;
  shallow.weight_slots = shallow.in_flight_chunks = 2;
  EXPECT_GT(Predicted(load, device, shallow).step_us, 1.005 * usual);
  RingShape timid = kRings;
  timid.in_flight_chunks = 1;
  EXPECT_GT(Predicted(load, device, timid).step_us, 1.02 * usual);
  RingShape single = kRings;
  single.kv_slots = 1;
  EXPECT_GT(Predicted({.contexts = {131072}, .active_experts = 8}, {}, single).step_us,
            1.02 * Predicted({.contexts = {131072}, .active_experts = 8}).step_us);
}

// Pages are attended to beside the experts: most of it costs no time of its own.
TEST(StepSimulator, AttentionHidesBehindTheExperts) {
  const StepLoad load{.contexts = {8192}, .active_experts = 24};
  DeviceConstants slow;
  slow.attend_bytes_per_us /= 2;
  const double usual = Predicted(load).step_us;
  EXPECT_LT(Predicted(load, slow).step_us, 1.02 * usual);
  slow.attend_bytes_per_us /= 50;
  EXPECT_GT(Predicted(load, slow).step_us, 1.2 * usual);
}

TEST(StepSimulator, SharesAddUp) {
  const StepPrediction step = Predicted({.contexts = {8192, 100}, .active_experts = 16});
  const double sum =
      step.busy + step.wait_memory + step.wait_routing + step.wait_join + step.wait_other;
  EXPECT_LE(sum, 1.0 + 1e-9);
  EXPECT_GT(sum, 0.9);
}

TEST(StepSimulator, NamesTheTaskThatWaitsForEver) {
  const ModelConfig config = NorthMiniCodeGeometry(kLayers);
  TaskLists waiting = TaskGraph::Build(config, 4).lists();
  for (Task& task : waiting[1]) {
    if (task.op == OpKind::kQkvRope && task.layer == 3) {
      task.waits[1] = {CounterId(CounterKind::kHidden, 3, kLayers), 4};
    }
  }
  const auto circle = PredictStep(config, TaskGraph(GraphShape::Of(config), waiting),
                                  {.active_experts = 8}, kRings);
  EXPECT_EQ(circle.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(circle.status().message()), testing::HasSubstr("stops for ever"));
}

TEST(StepSimulator, RefusesABatchOfNoRows) {
  const ModelConfig config = NorthMiniCodeGeometry(kLayers);
  const TaskGraph graph = TaskGraph::Build(config, 4);
  EXPECT_FALSE(PredictStep(config, graph, {.contexts = {}}, kRings).ok());
  EXPECT_FALSE(PredictStep(config, graph, {.contexts = std::vector<int>(33, 1)}, kRings).ok());
}

// The constants' fit, so that neither they nor the schedule change unnoticed.
TEST(StepSimulator, IsNearTheStepsThatWereMeasured) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const TaskGraph graph = TaskGraph::Build(config, 132);
  for (const MeasuredStep& step : kMeasuredSteps) {
    const auto prediction = PredictStep(config, graph, step.load(), step.ring());
    ASSERT_TRUE(prediction.ok()) << prediction.status();
    EXPECT_NEAR(prediction->step_us * 1e-3, step.ms, 0.05 * step.ms)
        << "batch " << step.batch << ", context " << step.context << ", experts of " << step.pool;
  }
}

}  // namespace
}  // namespace baton
