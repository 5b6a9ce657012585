#include "kernels/cpu/step_buffers.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

TEST(StepBuffers, KeepsRowsCopiesAndSplitsApart) {
  const ModelConfig config = SyntheticConfig();
  StepBuffers buffers(config, GraphShape::Of(config), 3, 2, 2);
  EXPECT_EQ(buffers.x(0, 2) - buffers.x(0, 1), config.hidden);
  EXPECT_NE(buffers.x(0, 0), buffers.x(1, 0));
  EXPECT_EQ(buffers.router(1, 1) - buffers.router(1, 0), config.expert_count);
  // The widest layer decides: dense 48 against two experts of 16.
  EXPECT_EQ(buffers.ffn_hidden(0, 1) - buffers.ffn_hidden(0, 0), 48);
  EXPECT_EQ(buffers.partial(0, 0, 1) - buffers.partial(0, 0, 0), config.head_dim + 2);
  EXPECT_EQ(buffers.partial(0, 1, 0) - buffers.partial(0, 0, 0),
            kMaxAttentionSplits * (config.head_dim + 2));
}

TEST(StepBuffers, PoisonShows) {
  const ModelConfig config = SyntheticConfig();
  StepBuffers buffers(config, GraphShape::Of(config), 3, 2, 2);
  buffers.Poison();
  EXPECT_TRUE(std::isnan(buffers.x(2, 2)[config.hidden - 1]));
  EXPECT_TRUE(std::isnan(buffers.merged(1)[0]));
  EXPECT_TRUE(std::isnan(buffers.head_partial(1, 3).sum));
  EXPECT_EQ(buffers.candidate(1, 1).token, -1);
}

}  // namespace
}  // namespace baton
