// Shared memory as it is planned, without a device.
#include "kernels/cuda/decode/megakernel.cuh"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/decode/cuda_decode_runner.h"
#include "kernels/models/north_geometry.h"
#include "kernels/task_graph/ring_schedule.h"

namespace baton::cuda {
namespace {

constexpr uint32_t kHopperLimit = 232448;  // Bytes a block, on sm_90.

// What the simulator and the check of rings take for the kernel's rings are those. Else a slot less
// would go unnoticed, for which a few bytes more of anything may do.
TEST(PlanSmem, HasTheRingsThatTheSimulatorKnows) {
  const ModelConfig config = NorthMiniCodeGeometry(4);
  const DecodeTuning tuning;
  for (const int rows : {1, 8, 16, 24, 32}) {
    const SmemDemand demand{.row_tiles = (rows + 7) / 8,
                            .hidden = config.hidden,
                            .expert_limit = config.expert_count,
                            .experts_per_token = config.experts_per_token,
                            .keep_tiles = 1,
                            .q_width = config.query_heads * config.head_dim,
                            .expert_width = config.expert_width,
                            .slot_bytes = SlotBytesFor(rows, tuning.slot_bytes),
                            .page_slots = PageSlotsFor(rows, tuning.page_slots),
                            .page_bytes = kPageTokens * config.head_dim * 2};
    SmemPlan plan;
    ASSERT_TRUE(PlanSmem(demand, kHopperLimit, plan)) << rows << " rows";
    EXPECT_LE(plan.total, kHopperLimit);
    const RingShape ring = RingShape::For(rows, 8192);
    EXPECT_EQ(plan.slot_count, ring.weight_slots) << rows << " rows";
    EXPECT_EQ(plan.slot_bytes, ring.weight_slot_bytes) << rows << " rows";
    EXPECT_EQ(tuning.in_flight_bytes / plan.slot_bytes, ring.in_flight_chunks) << rows << " rows";
    EXPECT_EQ(plan.page_slot_count, ring.kv_slots) << rows << " rows";
  }
}

TEST(PlanSmem, SaysHowMuchWouldBeWanted) {
  const SmemDemand demand{.row_tiles = 4,
                          .hidden = 16384,
                          .expert_limit = 8,
                          .experts_per_token = 2,
                          .q_width = 128,
                          .expert_width = 16,
                          .slot_bytes = 12288,
                          .page_slots = 2,
                          .page_bytes = 16384};
  SmemPlan plan;
  EXPECT_FALSE(PlanSmem(demand, kHopperLimit, plan));
  EXPECT_GT(plan.total, kHopperLimit);
}

}  // namespace
}  // namespace baton::cuda
