#include "kernels/task_graph/op_table.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(OpTable, NamesEveryOp) {
  EXPECT_STREQ(OpName(OpKind::kEmbed), "Embed");
  EXPECT_STREQ(OpName(OpKind::kSample), "Sample");
  EXPECT_STREQ(OpName(static_cast<OpKind>(kOpCount)), "?");
  EXPECT_EQ(static_cast<int>(OpKind::kSample), kOpCount - 1);
}

}  // namespace
}  // namespace baton
