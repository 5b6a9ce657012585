#include <cmath>

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using AttentionMergeOp = OpFixture;

TEST_F(AttentionMergeOp, JoinsTheSplitWithTheRowsOwnKey) {
  for (int row = 0; row < kRows; ++row) {
    FillRandom(buffers().query(row), 32);
    FillRandom(buffers().new_key(row), 16);
    FillRandom(buffers().new_value(row), 16);
    for (int head = 0; head < 4; ++head) {
      FillRandom(buffers().partial(row, head, 0), 8);
      buffers().partial(row, head, 0)[8] = 0.75f;
      buffers().partial(row, head, 0)[9] = 2.5f;
    }
  }
  RunOp(OpKind::kAttentionMerge, 3);
  for (int row : {1, 2}) {
    for (int head = 0; head < 4; ++head) {
      double score = 0;
      for (int i = 0; i < 8; ++i) {
        score += buffers().query(row)[head * 8 + i] * buffers().new_key(row)[head / 2 * 8 + i];
      }
      const double own = std::exp(score / std::sqrt(8.0) - 0.75);
      for (int i = 0; i < 8; ++i) {
        const double wanted = (buffers().partial(row, head, 0)[i] +
                               own * buffers().new_value(row)[head / 2 * 8 + i]) /
                              (2.5 + own);
        EXPECT_NEAR(buffers().merged(row)[head * 8 + i], wanted, 1e-5);
      }
    }
  }
}

TEST_F(AttentionMergeOp, AFirstTokenSeesItselfAlone) {
  for (int row = 0; row < kRows; ++row) {
    FillRandom(buffers().query(row), 32);
    FillRandom(buffers().new_key(row), 16);
    FillRandom(buffers().new_value(row), 16);
  }
  RunOp(OpKind::kAttentionMerge, 3);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(buffers().merged(0)[24 + i], buffers().new_value(0)[8 + i]);
}

}  // namespace
}  // namespace baton
