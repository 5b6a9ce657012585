#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using RouterOp = OpFixture;

TEST_F(RouterOp, GivesEachExpertsLogit) {
  FillX(2);
  RunOp(OpKind::kRouter, 2);
  for (int row = 0; row < kRows; ++row) {
    const std::vector<float> normed = Norm(2, row);
    for (int expert = 0; expert < 4; ++expert) {
      EXPECT_NEAR(buffers().router(2, row)[expert], Dot(weights(2).router, expert, normed.data()),
                  1e-5);
    }
  }
}

}  // namespace
}  // namespace baton
