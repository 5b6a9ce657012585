#include "kernels/models/north_geometry.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace baton {
namespace {

TEST(NorthGeometryTest, HasOneDenseLayerAndOneInFourWithoutAWindow) {
  const ModelConfig config = NorthMiniCodeGeometry();
  ASSERT_EQ(config.layers.size(), 49u);
  const auto count = [&](auto is) {
    return std::count_if(config.layers.begin(), config.layers.end(), is);
  };
  EXPECT_EQ(count([](const LayerConfig& layer) { return layer.dense; }), 1);
  EXPECT_EQ(count([](const LayerConfig& layer) { return !layer.sliding; }), 13);
  EXPECT_TRUE(config.layers[0].dense);
}

}  // namespace
}  // namespace baton
