#include "kernels/cpu/worker_context.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using WorkerContextTest = OpFixture;

TEST_F(WorkerContextTest, GroupsRowsByExpert) {
  const float logits[3][4] = {{3, 2, 1, 0}, {0, 1, 2, 3}, {3, 0, 2, 0}};
  for (int row = 0; row < 3; ++row) std::copy_n(logits[row], 4, buffers().router(1, row));
  const auto& active = context(0).Active(1, 1);
  ASSERT_EQ(active.size(), 4u);
  EXPECT_EQ(active[0].expert, 0);  // Rows 0 and 2.
  ASSERT_EQ(active[0].uses.size(), 2u);
  EXPECT_EQ(active[0].uses[1].row, 2);
  EXPECT_EQ(active[2].expert, 2);  // Rows 1 and 2: the first slot of one, the second of the other.
  ASSERT_EQ(active[2].uses.size(), 2u);
  EXPECT_EQ(active[2].uses[0].slot, 0);
  EXPECT_EQ(active[2].uses[1].slot, 1);
  EXPECT_EQ(context(0).distinct_experts(), 4);
}

TEST_F(WorkerContextTest, ForgetsTheStepBefore) {
  for (int row = 0; row < 3; ++row) std::fill_n(buffers().x(0, row), 32, 1.0f);
  const float before = context(0).Normed(0, 0)[0][5];
  for (int i = 0; i < 32; ++i) buffers().x(0, 0)[i] = static_cast<float>(i);
  EXPECT_EQ(context(0).Normed(0, 0)[0][5], before);  // Within a step a layer's x does not change.
  context(0).BeginStep();
  EXPECT_NE(context(0).Normed(0, 0)[0][5], before);
}

TEST_F(WorkerContextTest, NormalizesOnlySampledRowsAtTheEnd) {
  plan().sampled = {{.row = 2}};
  FillRandom(buffers().x(1, 2), 32);
  const auto& rows = context(0).Normed(4, 1);
  ASSERT_EQ(rows.size(), 1u);
  std::vector<float> wanted(32);
  model().Normalize(4, buffers().x(1, 2), wanted.data());
  EXPECT_EQ(std::vector<float>(rows[0], rows[0] + 32), wanted);
}

}  // namespace
}  // namespace baton
