#include "kernels/cuda/load_progress.h"

#include <gtest/gtest.h>

namespace baton::cuda {
namespace {

TEST(LoadProgressTest, DrawsTheShareThatIsDone) {
  EXPECT_EQ(ProgressBar("packing", 5ull << 30, 20ull << 30, 2, 8),
            "packing [##......] 25 % of 20.0 GiB, 2.7 GB/s");
  EXPECT_EQ(ProgressBar("packing", 0, 1ull << 30, 0, 4), "packing [....] 0 % of 1.0 GiB, 0.0 GB/s");
  EXPECT_EQ(ProgressBar("packing", 1ull << 30, 1ull << 30, 1, 4),
            "packing [####] 100 % of 1.0 GiB, 1.1 GB/s");
}

TEST(LoadProgressTest, NothingToLoadIsAllDone) {
  EXPECT_EQ(ProgressBar("packing", 0, 0, 0, 2), "packing [##] 100 % of 0.0 GiB, 0.0 GB/s");
}

}  // namespace
}  // namespace baton::cuda
