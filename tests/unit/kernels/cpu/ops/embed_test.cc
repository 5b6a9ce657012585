#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using EmbedOp = OpFixture;

TEST_F(EmbedOp, CopiesTheTokensRow) {
  RunOp(OpKind::kEmbed, 0);
  const auto* table = static_cast<const float*>(model().weights().embedding.data);
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < 32; ++i) EXPECT_EQ(X(0, row)[i], table[(10 + row) * 32 + i]);
  }
}

}  // namespace
}  // namespace baton
