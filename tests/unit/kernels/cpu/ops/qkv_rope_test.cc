#include <cmath>

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using QkvRopeOp = OpFixture;

// An interleaved pair of a head rotated by the position's angle.
std::pair<double, double> RotatePair(double even, double odd, int position, int pair) {
  const double angle = position * std::pow(50000.0, -2.0 * pair / 8);
  return {even * std::cos(angle) - odd * std::sin(angle),
          odd * std::cos(angle) + even * std::sin(angle)};
}

TEST_F(QkvRopeOp, RotatesInterleavedPairsOfQueriesAndKeys) {
  FillX(1);
  RunOp(OpKind::kQkvRope, 1);
  for (int row = 0; row < kRows; ++row) {
    const std::vector<float> normed = Norm(1, row);
    for (int i = 0; i < 32; i += 2) {
      const auto wanted =
          RotatePair(Dot(weights(1).q, i, normed.data()), Dot(weights(1).q, i + 1, normed.data()),
                     plan().rows[row].position, i % 8 / 2);
      EXPECT_NEAR(buffers().query(row)[i], wanted.first, 1e-4);
      EXPECT_NEAR(buffers().query(row)[i + 1], wanted.second, 1e-4);
    }
    const auto key = RotatePair(Dot(weights(1).k, 10, normed.data()),
                                Dot(weights(1).k, 11, normed.data()), plan().rows[row].position, 1);
    EXPECT_NEAR(buffers().new_key(row)[10], key.first, 1e-4);
    EXPECT_NEAR(buffers().new_value(row)[11], Dot(weights(1).v, 11, normed.data()), 1e-5);
  }
}

TEST_F(QkvRopeOp, LeavesLayersWithoutRopeAsTheyAre) {
  FillX(3);
  RunOp(OpKind::kQkvRope, 3);
  const std::vector<float> normed = Norm(3, 2);
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(buffers().query(2)[i], Dot(weights(3).q, i, normed.data()), 1e-5);
  }
}

TEST_F(QkvRopeOp, AppendsKeysAndValuesToThePages) {
  FillX(1);
  RunOp(OpKind::kQkvRope, 1);
  for (int row = 0; row < kRows; ++row) {
    const StepRow& step_row = plan().rows[row];
    for (int head = 0; head < 2; ++head) {
      const auto* key = reinterpret_cast<const float*>(
          plan().kv.At(*step_row.pages, 1, step_row.position, 0, head));
      const auto* value = reinterpret_cast<const float*>(
          plan().kv.At(*step_row.pages, 1, step_row.position, 1, head));
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(key[i], buffers().new_key(row)[head * 8 + i]);
        EXPECT_EQ(value[i], buffers().new_value(row)[head * 8 + i]);
      }
    }
  }
}

}  // namespace
}  // namespace baton
