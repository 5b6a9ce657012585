#include "kernels/models/distinct_experts.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(DistinctExperts, ExpectsAsManyAsDrawingGives) {
  EXPECT_DOUBLE_EQ(ExpectedDistinctExperts(1, 8, 128), 8);
  EXPECT_DOUBLE_EQ(ExpectedDistinctExperts(2, 8, 128), 15.5);
  EXPECT_NEAR(ExpectedDistinctExperts(8, 8, 128), 51.6, 0.05);
  EXPECT_NEAR(ExpectedDistinctExperts(32, 8, 128), 111.8, 0.05);
  EXPECT_NEAR(ExpectedDistinctExperts(8, 8, 27), 25.4, 0.05);
  EXPECT_DOUBLE_EQ(ExpectedDistinctExperts(3, 8, 8), 8);
}

TEST(DistinctExperts, AModelWithoutExpertsHasNone) {
  EXPECT_EQ(ExpectedDistinctExperts(8, 0, 0), 0);
}

}  // namespace
}  // namespace baton
