#include "kernels/task_graph/op_contract.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

TEST(OpContract, DownReadsOneCopyOfXAndWritesTheNext) {
  const GraphShape shape = GraphShape::Of(GraphConfig(6, 1, SharedExperts::kNone));
  const OpContract contract =
      ContractOf(shape, {.op = OpKind::kDown, .layer = 5, .buffer_epoch = 2}, false);
  ASSERT_EQ(contract.writes.size(), 1u);
  EXPECT_EQ(contract.writes[0].buffer, Buffer::kX);
  EXPECT_EQ(contract.writes[0].copy, 0);
  EXPECT_EQ(contract.writes[0].version, 6);
  EXPECT_EQ(contract.signal, CounterId(CounterKind::kX, 6, 6));
  for (const BufferAccess& read : contract.reads) EXPECT_EQ(read.version, 5);
}

TEST(OpContract, TheLaterOfOutputProjAndDownWritesX) {
  const GraphShape shape = GraphShape::Of(GraphConfig(6, 1, SharedExperts::kNone));
  for (const uint16_t layer : {4, 5}) {  // The first sees all keys, the second a window.
    for (const OpKind op : {OpKind::kOutputProj, OpKind::kDown}) {
      const Task task{
          .op = op, .layer = layer, .buffer_epoch = static_cast<uint16_t>(layer % kBufferCopies)};
      const bool later = (op == OpKind::kDown) == (layer == 5);
      const OpContract contract = ContractOf(shape, task, false);
      ASSERT_EQ(contract.writes.size(), 1u);
      EXPECT_EQ(contract.writes[0].buffer, later ? Buffer::kX : Buffer::kKept);
      EXPECT_EQ(contract.signal.has_value(), later);
    }
  }
}

TEST(OpContract, OnlyTheLastGateUpSignals) {
  const GraphShape shape = GraphShape::Of(GraphConfig(3, 1, SharedExperts::kNone));
  const Task task{.op = OpKind::kGateUp, .part = kRoutedExperts, .layer = 1, .buffer_epoch = 1};
  EXPECT_FALSE(ContractOf(shape, task, false).signal.has_value());
  EXPECT_EQ(ContractOf(shape, task, true).signal, CounterId(CounterKind::kHidden, 1, 3));
}

TEST(OpContract, TheDenseNetworkNeedsNoRouter) {
  const GraphShape shape = GraphShape::Of(GraphConfig(3, 1, SharedExperts::kNone));
  const OpContract contract =
      ContractOf(shape, {.op = OpKind::kGateUp, .part = kAlwaysActive}, true);
  EXPECT_THAT(contract.waits, testing::ElementsAre(CounterId(CounterKind::kX, 0, 3)));
}

}  // namespace
}  // namespace baton
