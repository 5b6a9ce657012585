#include "kernels/task_graph/task_graph_builder.h"

#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

TEST(TaskGraphBuilder, SplitsUnitsEvenly) {
  for (uint32_t unit_count : {0u, 1u, 7u, 132u, 257u}) {
    uint32_t next = 0;
    for (int worker = 0; worker < 132; ++worker) {
      const UnitRange range = OwnedUnits(unit_count, worker, 132);
      EXPECT_EQ(range.begin, next);
      EXPECT_GE(range.size(), unit_count / 132);
      EXPECT_LE(range.size(), unit_count / 132 + 1);
      next = range.end;
    }
    EXPECT_EQ(next, unit_count);
  }
}

TEST(TaskGraphBuilder, HidesAttentionBehindTheExperts) {
  const GraphShape shape = GraphShape::Of(GraphConfig(2, 1, SharedExperts::kSum));
  const auto lists = TaskGraphBuilder(shape, 2).Build();
  std::vector<OpKind> ops;
  std::vector<int> parts;
  for (const Task& task : lists[0]) {
    if (task.layer != 1) continue;
    ops.push_back(task.op);
    parts.push_back(task.part);
  }
  const std::vector<OpKind> wanted = {
      OpKind::kRouter, OpKind::kQkvRope,        OpKind::kGateUp,     OpKind::kAttention,
      OpKind::kGateUp, OpKind::kAttentionMerge, OpKind::kOutputProj, OpKind::kDown};
  EXPECT_EQ(ops, wanted);
  EXPECT_EQ(parts, (std::vector<int>{0, 0, kRoutedExperts, 0, kAlwaysActive, 0, 0, 0}));
}

TEST(TaskGraphBuilder, WaitsLastForAttentionOverAllKeys) {
  const GraphShape shape = GraphShape::Of(GraphConfig(5, 1, SharedExperts::kNone));
  const auto lists = TaskGraphBuilder(shape, 2).Build();
  for (const int layer : {3, 4}) {  // The first sees a window of keys, the second all.
    std::vector<OpKind> ops;
    for (const Task& task : lists[1]) {
      if (task.layer == layer) ops.push_back(task.op);
    }
    ops.erase(ops.begin(), ops.end() - 2);
    const std::vector<OpKind> wanted = layer == 3 ? std::vector{OpKind::kOutputProj, OpKind::kDown}
                                                  : std::vector{OpKind::kDown, OpKind::kOutputProj};
    EXPECT_EQ(ops, wanted);
  }
}

}  // namespace
}  // namespace baton
