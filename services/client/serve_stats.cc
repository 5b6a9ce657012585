#include "services/client/serve_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace baton {
namespace {

constexpr TimeWindow kAlways{.begin_s = -std::numeric_limits<double>::infinity(),
                             .end_s = std::numeric_limits<double>::infinity()};

// The smallest sample that at least `share` of all do not exceed.
double NearestRank(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

bool Keeps(const StreamRecord& stream, const LatencyBounds& bounds) {
  const double first_ms = (stream.arrivals.front().at_s - stream.start_s) * 1e3;
  if (bounds.first_token_ms && first_ms > *bounds.first_token_ms) return false;
  if (!bounds.inter_token_ms) return true;
  return Summarize(TokenGaps(stream, kAlways)).p99 <= *bounds.inter_token_ms;
}

}  // namespace

uint64_t StreamRecord::output_tokens() const {
  uint64_t count = 0;
  for (const TokenArrival& arrival : arrivals) count += arrival.count;
  return count;
}

LatencySummary Summarize(std::vector<double> milliseconds) {
  if (milliseconds.empty()) return {};
  std::sort(milliseconds.begin(), milliseconds.end());
  const double sum = std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0);
  return {.count = milliseconds.size(),
          .mean = sum / static_cast<double>(milliseconds.size()),
          .p50 = NearestRank(milliseconds, 0.5),
          .p99 = NearestRank(milliseconds, 0.99),
          .max = milliseconds.back()};
}

std::vector<double> TokenGaps(const StreamRecord& stream, const TimeWindow& window) {
  std::vector<double> gaps;
  const TokenArrival* before = nullptr;
  for (const TokenArrival& arrival : stream.arrivals) {
    if (arrival.at_s >= window.begin_s && arrival.at_s < window.end_s) {
      if (before != nullptr) gaps.push_back((arrival.at_s - before->at_s) * 1e3);
      gaps.insert(gaps.end(), arrival.count - 1, 0.0);
    }
    before = &arrival;
  }
  return gaps;
}

LoadSummary SummarizeLoad(const std::vector<StreamRecord>& streams, double begin_s,
                          const LatencyBounds& bounds) {
  LoadSummary summary;
  std::vector<double> first, gaps, whole;
  size_t good = 0;
  double end_s = begin_s;
  for (const StreamRecord& stream : streams) {
    end_s = std::max(end_s, stream.end_s);
    if (!stream.status.ok() || stream.arrivals.empty()) {
      summary.failed += 1;
      if (summary.first_failure.ok()) {
        summary.first_failure =
            stream.status.ok() ? absl::InternalError("the answer had no token") : stream.status;
      }
      continue;
    }
    summary.completed += 1;
    summary.prompt_tokens += stream.prompt_tokens;
    summary.output_tokens += stream.output_tokens();
    first.push_back((stream.arrivals.front().at_s - stream.start_s) * 1e3);
    whole.push_back((stream.end_s - stream.start_s) * 1e3);
    const std::vector<double> own = TokenGaps(stream, kAlways);
    gaps.insert(gaps.end(), own.begin(), own.end());
    good += Keeps(stream, bounds) ? 1 : 0;
  }
  summary.seconds = end_s - begin_s;
  summary.first_token = Summarize(std::move(first));
  summary.inter_token = Summarize(std::move(gaps));
  summary.whole = Summarize(std::move(whole));
  if (bounds.first_token_ms || bounds.inter_token_ms) {
    summary.goodput = summary.seconds > 0 ? static_cast<double>(good) / summary.seconds : 0;
  }
  return summary;
}

LatencySummary SummarizeGaps(const std::vector<StreamRecord>& streams, const TimeWindow& window) {
  std::vector<double> gaps;
  for (const StreamRecord& stream : streams) {
    const std::vector<double> own = TokenGaps(stream, window);
    gaps.insert(gaps.end(), own.begin(), own.end());
  }
  return Summarize(std::move(gaps));
}

}  // namespace baton
