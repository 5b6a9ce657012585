#include "kernels/models/chunk_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/models/north_geometry.h"

namespace baton {
namespace {

double AttentionOf(const ModelConfig& config, int64_t begin, int64_t tokens) {
  const PromptStretch stretch{begin, tokens};
  return CountChunkWork(config, {&stretch, 1}).attention_operations;
}

TEST(ChunkCost, CountsVisibleKeysLikeALoop) {
  ModelConfig config = NorthMiniCodeGeometry();
  config.window_keys = 100;
  for (const auto& [begin, tokens] : std::vector<std::pair<int, int>>{
           {0, 1}, {0, 99}, {0, 100}, {0, 101}, {50, 80}, {99, 1}, {100, 1}, {300, 64}}) {
    double keys = 0;
    for (const LayerConfig& layer : config.layers) {
      for (int q = begin; q < begin + tokens; ++q) {
        keys += layer.sliding ? std::min(q + 1, 100) : q + 1;
      }
    }
    EXPECT_DOUBLE_EQ(AttentionOf(config, begin, tokens), keys * 4 * 32 * 128)
        << begin << "+" << tokens;
  }
}

TEST(ChunkCost, MatrixWorkIsTwiceTheParametersUsedPerToken) {
  const PromptStretch stretch{0, 1000};
  const ChunkWork work = CountChunkWork(NorthMiniCodeGeometry(), {&stretch, 1});
  // 2,768,343,040 parameters are used per token, 102,400 of them in norms.
  EXPECT_DOUBLE_EQ(work.matrix_operations, 2.0 * 1000 * (2768343040.0 - 102400));
}

TEST(ChunkCost, SplittingAPromptKeepsItsWork) {
  const ModelConfig config = NorthMiniCodeGeometry();
  EXPECT_DOUBLE_EQ(AttentionOf(config, 0, 6000) + AttentionOf(config, 6000, 4000),
                   AttentionOf(config, 0, 10000));
}

TEST(ChunkCost, GrowsWithTokensAndWithThePrefix) {
  const ModelConfig config = NorthMiniCodeGeometry();
  double last = 0;
  for (const int64_t tokens : {1, 2, 64, 500, 512, 4096, 8192}) {
    const PromptStretch stretch{0, tokens};
    const double seconds = EstimateChunkSeconds(config, {&stretch, 1});
    EXPECT_GT(seconds, last) << tokens;
    last = seconds;
  }
  const PromptStretch late{100000, 8192};
  EXPECT_GT(EstimateChunkSeconds(config, {&late, 1}), last);
}

// Milliseconds of `baton bench prefill` on an H200 (tests/bench/RESULTS.md).
TEST(ChunkCost, MeetsWhatWasMeasuredWithinFivePercent) {
  constexpr int64_t kChunk = 8192;
  const struct {
    int64_t tokens;
    double milliseconds;
  } kMeasured[] = {{512, 20.2},   {1024, 23.9},   {2048, 35.2},  {4096, 65.9},
                   {8192, 139.8}, {16384, 317.5}, {32768, 754.4}};
  const ModelConfig config = NorthMiniCodeGeometry();
  for (const auto& point : kMeasured) {
    double seconds = 0;
    for (int64_t begin = 0; begin < point.tokens; begin += kChunk) {
      const PromptStretch stretch{begin, std::min(kChunk, point.tokens - begin)};
      seconds += EstimateChunkSeconds(config, {&stretch, 1});
    }
    EXPECT_NEAR(seconds * 1e3 / point.milliseconds, 1, 0.05) << point.tokens;
  }
  const PromptStretch packed[] = {{0, 2048}, {0, 2048}, {0, 2048}, {0, 2048}};
  EXPECT_NEAR(4 * EstimateChunkSeconds(config, packed) * 1e3 / 440.4, 1, 0.05);
}

// Under MPS with 28 and with 25 % of an H200 (tests/bench/RESULTS.md): 8K tokens. A part of a GPU
// has a higher clock than the whole.
TEST(ChunkCost, KnowsAShareOfTheMultiprocessors) {
  const PromptStretch stretch{0, 8192};
  const ModelConfig config = NorthMiniCodeGeometry();
  for (const auto& [multiprocessors, milliseconds] :
       std::vector<std::pair<int, double>>{{36, 398.8}, {32, 448.0}}) {
    const DeviceRates rates = DeviceRates{}.WithMultiprocessors(multiprocessors);
    const double seconds = EstimateChunkSeconds(config, {&stretch, 1}, rates);
    EXPECT_NEAR(seconds * 1e3 / milliseconds, 1, 0.2) << seconds;
  }
}

TEST(ChunkCost, AShortChunkIsBoundByTheWeightsItReads) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const PromptStretch stretch{0, 256};
  DeviceRates slow_memory;
  slow_memory.fixed_seconds_per_layer = 0;
  DeviceRates fast_memory = slow_memory;
  fast_memory.bytes_per_second = 2 * slow_memory.bytes_per_second;
  EXPECT_LT(EstimateChunkSeconds(config, {&stretch, 1}, fast_memory),
            0.65 * EstimateChunkSeconds(config, {&stretch, 1}, slow_memory));
}

}  // namespace
}  // namespace baton
