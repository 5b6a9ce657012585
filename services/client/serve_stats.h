// What a load saw, as numbers: time to first token, inter-token latency, throughput, goodput. Pure.
//
// Definitions, all as the client sees them:
//   time to first token   from the request's planned start to its first token
//   inter-token latency   between a token and the one before it in its stream; tokens that came in
//                         one message have 0 between them
//   throughput            over the time from the load's begin to its last request's end
//   goodput               requests a second that ended well and kept every bound given; the bound
//   on
//                         inter-token latency holds for 99 % of a request's tokens
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace baton {

// Tokens of one message.
struct TokenArrival {
  double at_s = 0;
  uint32_t count = 1;
};

// One request; times in seconds on one clock.
struct StreamRecord {
  double start_s = 0;
  double end_s = 0;
  uint32_t prompt_tokens = 0;
  std::vector<TokenArrival> arrivals;
  absl::Status status;

  uint64_t output_tokens() const;
};

// Milliseconds; percentiles by nearest rank. All 0 if there is no sample.
struct LatencySummary {
  size_t count = 0;
  double mean = 0, p50 = 0, p99 = 0, max = 0;
};
LatencySummary Summarize(std::vector<double> milliseconds);

struct TimeWindow {
  double begin_s = 0;
  double end_s = 0;
};

// Inter-token latencies of tokens that arrived within the window, milliseconds.
std::vector<double> TokenGaps(const StreamRecord& stream, const TimeWindow& window);

struct LatencyBounds {
  std::optional<double> first_token_ms;
  std::optional<double> inter_token_ms;
};

struct LoadSummary {
  size_t completed = 0;
  size_t failed = 0;
  absl::Status first_failure;
  double seconds = 0;
  uint64_t prompt_tokens = 0;  // Of completed requests.
  uint64_t output_tokens = 0;
  LatencySummary first_token;  // Of completed requests.
  LatencySummary inter_token;
  LatencySummary whole;           // From planned start to end.
  std::optional<double> goodput;  // Requests a second; only with a bound.

  double requests_per_second() const { return seconds > 0 ? completed / seconds : 0; }
  double output_tokens_per_second() const { return seconds > 0 ? output_tokens / seconds : 0; }
};

// `begin_s`: the load's begin.
LoadSummary SummarizeLoad(const std::vector<StreamRecord>& streams, double begin_s,
                          const LatencyBounds& bounds);

// Of several streams in a window: the class whose latency is watched while a load runs.
LatencySummary SummarizeGaps(const std::vector<StreamRecord>& streams, const TimeWindow& window);

}  // namespace baton
