// Also tests: kernels/cpu/ops/add_to_x.cc
#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using OutputProjOp = OpFixture;

TEST_F(OutputProjOp, KeepsEachWorkersColumns) {
  for (int row = 0; row < kRows; ++row) FillRandom(buffers().merged(row), 32);
  RunOp(OpKind::kOutputProj, 1);
  for (int worker = 0; worker < kWorkers; ++worker) {
    const std::vector<float>& kept = context(worker).kept_output();
    ASSERT_EQ(kept.size(), 16u * kRows);
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < 16; ++i) {
        EXPECT_NEAR(kept[row * 16 + i], Dot(weights(1).o, worker * 16 + i, buffers().merged(row)),
                    1e-5);
      }
    }
  }
}

// In layers that see all keys it comes after Down.
TEST_F(OutputProjOp, AddsToXAfterDown) {
  FillX(3);
  for (int row = 0; row < kRows; ++row) FillRandom(buffers().merged(row), 32);
  for (int worker = 0; worker < kWorkers; ++worker)
    context(worker).kept_output().assign(16 * kRows, 0.75f);
  RunOp(OpKind::kOutputProj, 3);
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < 32; ++i) {
      EXPECT_NEAR(X(4, row)[i], X(3, row)[i] + Dot(weights(3).o, i, buffers().merged(row)) + 0.75,
                  1e-5);
    }
  }
}

}  // namespace
}  // namespace baton
