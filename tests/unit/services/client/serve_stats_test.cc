#include "services/client/serve_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// First token `first_s` after the start, then one each `gap_s`.
StreamRecord Stream(double start_s, double first_s, double gap_s, int tokens) {
  StreamRecord stream{.start_s = start_s, .prompt_tokens = 10};
  for (int i = 0; i < tokens; ++i) {
    stream.arrivals.push_back({.at_s = start_s + first_s + i * gap_s});
  }
  stream.end_s = stream.arrivals.back().at_s;
  return stream;
}

TEST(SummarizeTest, PercentilesAreSamplesByNearestRank) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  LatencySummary summary = Summarize(samples);
  EXPECT_EQ(summary.count, 100u);
  EXPECT_DOUBLE_EQ(summary.mean, 50.5);
  EXPECT_EQ(summary.p50, 50);
  EXPECT_EQ(summary.p99, 99);
  EXPECT_EQ(summary.max, 100);
  samples.push_back(1000);
  summary = Summarize(samples);
  EXPECT_EQ(summary.p99, 100);
  EXPECT_EQ(summary.max, 1000);
  EXPECT_EQ(Summarize({}).max, 0);
  EXPECT_EQ(Summarize({3}).p99, 3);
}

TEST(TokenGapsTest, TokensOfOneMessageHaveNoTimeBetween) {
  const StreamRecord stream{.arrivals = {{1.0, 1}, {1.25, 3}, {1.5, 1}}};
  EXPECT_THAT(TokenGaps(stream, {0, 10}), ElementsAre(250, 0, 0, 250));
}

TEST(TokenGapsTest, AGapBelongsToTheWindowInWhichItEnds) {
  const StreamRecord stream{.arrivals = {{1.0, 1}, {2.0, 1}, {4.0, 1}}};
  EXPECT_THAT(TokenGaps(stream, {1.5, 4.0}), ElementsAre(1000));
  EXPECT_THAT(TokenGaps(stream, {3.0, 4.5}), ElementsAre(2000));
}

TEST(SummarizeLoadTest, CountsThroughputFromTheBeginToTheLastEnd) {
  const LoadSummary summary =
      SummarizeLoad({Stream(10, 0.5, 0.1, 11), Stream(11, 0.25, 0.1, 6)}, 10, {});
  EXPECT_EQ(summary.completed, 2u);
  EXPECT_DOUBLE_EQ(summary.seconds, 1.75);
  EXPECT_EQ(summary.output_tokens, 17u);
  EXPECT_EQ(summary.prompt_tokens, 20u);
  EXPECT_DOUBLE_EQ(summary.output_tokens_per_second(), 17 / 1.75);
  EXPECT_DOUBLE_EQ(summary.requests_per_second(), 2 / 1.75);
  EXPECT_THAT(summary.first_token.max, DoubleNear(500, 1e-6));
  EXPECT_THAT(summary.first_token.p50, DoubleNear(250, 1e-6));
  EXPECT_EQ(summary.inter_token.count, 15u);
  EXPECT_THAT(summary.inter_token.mean, DoubleNear(100, 1e-6));
  EXPECT_FALSE(summary.goodput.has_value());
}

TEST(SummarizeLoadTest, FailuresCountApartAndKeepTheirReason) {
  StreamRecord failed{.start_s = 1, .end_s = 5, .status = absl::ResourceExhaustedError("full")};
  const StreamRecord empty{.start_s = 1, .end_s = 2};
  const LoadSummary summary = SummarizeLoad({failed, empty, Stream(1, 1, 1, 2)}, 1, {});
  EXPECT_EQ(summary.completed, 1u);
  EXPECT_EQ(summary.failed, 2u);
  EXPECT_EQ(summary.first_failure.message(), "full");
  EXPECT_DOUBLE_EQ(summary.seconds, 4) << "a failed request's time counts as well";
}

TEST(SummarizeLoadTest, GoodputWantsEveryBound) {
  StreamRecord one_stall = Stream(0, 0.1, 0.01, 201);
  for (size_t i = 100; i < one_stall.arrivals.size(); ++i) one_stall.arrivals[i].at_s += 1;
  const std::vector<StreamRecord> streams = {Stream(0, 0.1, 0.01, 200), Stream(0, 0.9, 0.01, 101),
                                             Stream(0, 0.1, 0.05, 20), one_stall};
  const auto good = [&](LatencyBounds bounds) {
    const LoadSummary summary = SummarizeLoad(streams, 0, bounds);
    return std::lround(*summary.goodput * summary.seconds);
  };
  EXPECT_EQ(good({.first_token_ms = 500}), 3);
  EXPECT_EQ(good({.inter_token_ms = 20}), 3) << "one stall in 200 tokens is within 99 %";
  EXPECT_EQ(good({.first_token_ms = 500, .inter_token_ms = 20}), 2);
}

TEST(SummarizeGapsTest, TakesAllStreamsWithinTheWindow) {
  const std::vector<StreamRecord> streams = {Stream(0, 0, 1, 11), Stream(0, 0.5, 2, 6)};
  const LatencySummary summary = SummarizeGaps(streams, {4.25, 8.25});
  EXPECT_EQ(summary.count, 6u);
  EXPECT_THAT(summary.max, DoubleNear(2000, 1e-6));
}

}  // namespace
}  // namespace baton
