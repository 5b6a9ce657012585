#include "services/prefill/chunk_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/models/north_geometry.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A chunk costs 10 and 1 a token.
double Linear(absl::Span<const PromptStretch> chunk) {
  double seconds = 10;
  for (const PromptStretch& stretch : chunk) seconds += static_cast<double>(stretch.tokens);
  return seconds;
}
double Unknown(absl::Span<const PromptStretch>) { return 0; }

std::vector<PackCandidate> Waiting(const std::vector<int64_t>& tokens) {
  std::vector<PackCandidate> waiting;
  for (const int64_t count : tokens) waiting.push_back({.stretch = {.tokens = count}});
  return waiting;
}

TEST(ChunkPacking, WithoutSecondsAllThatFitsJoins) {
  EXPECT_THAT(ChooseRiders({.tokens = 26}, Waiting({20, 60, 10, 4}), {50, 8}, Unknown),
              ElementsAre(0, 3));
  EXPECT_THAT(ChooseRiders({.tokens = 26}, Waiting({1, 1, 1, 1}), {50, 3}, Unknown),
              ElementsAre(0, 1));
}

TEST(ChunkPacking, WhatMayNotRideStaysWhereItWaits) {
  std::vector<PackCandidate> waiting = Waiting({5, 6});
  waiting[0].may_ride = false;
  EXPECT_THAT(ChooseRiders({.tokens = 10}, waiting, {50, 8}, Unknown), ElementsAre(1));
  EXPECT_THAT(ChooseRiders({.tokens = 50}, Waiting({1}), {50, 8}, Unknown), IsEmpty());
  EXPECT_THAT(ChooseRiders({.tokens = 5}, {}, {50, 8}, Unknown), IsEmpty());
}

// The head would wait for the rider's tokens; the rider saves a chunk's 10.
TEST(ChunkPacking, JoinsWhereItSavesMoreThanItHoldsUp) {
  EXPECT_THAT(ChooseRiders({.tokens = 30}, Waiting({9}), {1000, 8}, Linear), ElementsAre(0));
  EXPECT_THAT(ChooseRiders({.tokens = 30}, Waiting({11}), {1000, 8}, Linear), IsEmpty());
}

TEST(ChunkPacking, OfSeveralTheShortestAreAskedFirst) {
  // There is room for two: in order of arrival the 9 tokens would be one of them.
  EXPECT_THAT(ChooseRiders({.tokens = 30}, Waiting({9, 2, 3}), {1000, 3}, Linear),
              ElementsAre(1, 2));
}

TEST(ChunkPacking, ALongQueueBehindItLetsMoreJoin) {
  // 25 tokens hold up one prompt; three gain 10 each.
  EXPECT_THAT(ChooseRiders({.tokens = 30}, Waiting({25, 900, 900}), {60, 8}, Linear),
              ElementsAre(0));
  EXPECT_THAT(ChooseRiders({.tokens = 30}, Waiting({25, 900}), {60, 8}, Linear), IsEmpty());
}

TEST(ChunkPacking, PromptsAheadOfItAreHeldUpToo) {
  // The first does not fit. The second would not wait for it any more, but holds up two.
  EXPECT_THAT(ChooseRiders({.tokens = 30}, Waiting({100, 40}), {75, 8}, Linear), ElementsAre(1));
  EXPECT_THAT(ChooseRiders({.tokens = 30}, Waiting({46, 45}), {75, 8}, Linear), IsEmpty());
}

// Sum of waiting times when the rest is computed one by one.
double TotalWaiting(const PromptStretch& head, const std::vector<PackCandidate>& waiting,
                    const std::vector<size_t>& riders, const ChunkSeconds& seconds) {
  std::vector<PromptStretch> chunk = {head};
  for (const size_t rider : riders) chunk.push_back(waiting[rider].stretch);
  double now = seconds(chunk);
  double total = now * static_cast<double>(chunk.size());
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (std::find(riders.begin(), riders.end(), i) != riders.end()) continue;
    now += seconds({&waiting[i].stretch, 1});
    total += now;
  }
  return total;
}

// Against every subset of up to seven prompts of North Mini Code, with the measured costs.
TEST(ChunkPacking, NeverMakesAllWaitLongerAndIsNearTheBestChoice) {
  const ModelConfig config = NorthMiniCodeGeometry();
  const ChunkSeconds seconds = [&](absl::Span<const PromptStretch> chunk) {
    return EstimateChunkSeconds(config, chunk);
  };
  constexpr int64_t kTokens[] = {16, 100, 512, 1024, 2048, 4096};
  const PackLimits limits{.tokens = 8192, .prompts = 32};
  uint32_t state = 7;
  const auto random = [&state](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  double chosen_total = 0, best_total = 0, alone_total = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const PromptStretch head{.tokens = kTokens[random(6)]};
    std::vector<int64_t> tokens(1 + random(7));
    for (int64_t& count : tokens) count = kTokens[random(6)];
    const std::vector<PackCandidate> waiting = Waiting(tokens);
    const double alone = TotalWaiting(head, waiting, {}, seconds);
    double best = alone;
    for (uint32_t subset = 1; subset < 1u << tokens.size(); ++subset) {
      std::vector<size_t> riders;
      int64_t all = head.tokens;
      for (size_t i = 0; i < tokens.size(); ++i) {
        if ((subset >> i & 1) == 0) continue;
        riders.push_back(i);
        all += tokens[i];
      }
      if (all <= limits.tokens) best = std::min(best, TotalWaiting(head, waiting, riders, seconds));
    }
    const double chosen =
        TotalWaiting(head, waiting, ChooseRiders(head, waiting, limits, seconds), seconds);
    EXPECT_LE(chosen, alone * (1 + 1e-9)) << trial;
    chosen_total += chosen;
    best_total += best;
    alone_total += alone;
  }
  EXPECT_LE(chosen_total, 1.01 * best_total);
  EXPECT_LE(chosen_total, 0.9 * alone_total);
}

}  // namespace
}  // namespace baton
