#include "kernels/task_graph/graph_shape.h"

#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

TEST(GraphShape, RoundsPartialUnitsUp) {
  const GraphShape shape = GraphShape::Of(GraphConfig(3, 1, SharedExperts::kNone));
  EXPECT_EQ(shape.hidden_units, 12u);
  EXPECT_EQ(shape.vocab_units, 65u);  // 515 rows.
  EXPECT_EQ(shape.qkv_units, 40u);    // (6 + 2 * 2) * 32 rows.
}

TEST(GraphShape, TellsDenseFromSparseLayers) {
  const GraphShape shape = GraphShape::Of(GraphConfig(3, 1, SharedExperts::kAverage));
  EXPECT_FALSE(shape.layers[0].sparse);
  EXPECT_EQ(shape.layers[0].router_units, 0u);
  EXPECT_EQ(shape.layers[0].always_rows, 160u);
  EXPECT_TRUE(shape.layers[1].sparse);
  EXPECT_EQ(shape.layers[1].router_units, 2u);
  EXPECT_EQ(shape.layers[1].expert_rows, 48u);
  EXPECT_EQ(shape.layers[1].always_rows, 40u);
}

TEST(GraphShape, NumbersEveryCounterOnce) {
  constexpr int kLayers = 3;
  std::vector<int> seen(CounterCount(kLayers), 0);
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int kind = 0; kind < kCountersPerLayer; ++kind) {
      ++seen[CounterId(static_cast<CounterKind>(kind), layer, kLayers)];
    }
  }
  ++seen[CounterId(CounterKind::kX, kLayers, kLayers)];
  ++seen[CounterId(CounterKind::kHead, kLayers, kLayers)];
  ++seen[CounterId(CounterKind::kStep, kLayers, kLayers)];
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(GraphShape, PlaceOfCounterIsTheInverseOfCounterId) {
  constexpr int kLayers = 5;
  for (int id = 0; id < CounterCount(kLayers); ++id) {
    const CounterPlace place = PlaceOfCounter(id, kLayers);
    EXPECT_EQ(CounterId(place.kind, place.layer, kLayers), id);
  }
}

}  // namespace
}  // namespace baton
