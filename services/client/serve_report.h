// What `baton bench serve` prints, as a table or as JSON. Pure.
#pragma once

#include <optional>
#include <string>

#include "services/client/serve_stats.h"

namespace baton {

// The rows that decode all the while.
struct SteadyReport {
  uint32_t row_count = 0;
  LatencySummary alone;   // Inter-token latency before the load.
  LatencySummary beside;  // While the load ran.
  absl::Status failure;   // Of a row, if any failed.

  // Of the 99th percentiles; 0 if there is none without load.
  double p99_ratio() const { return alone.p99 > 0 ? beside.p99 / alone.p99 : 0; }
};

struct ServeReport {
  std::string load;  // In words.
  LoadSummary requests;
  size_t late_count = 0;  // Requests that the client itself sent late.
  std::optional<SteadyReport> steady;
};

std::string ServeTable(const ServeReport& report);
// One object on one line. Latencies in milliseconds, under the names that other serving benchmarks
// use (ttft, itl, e2el).
std::string ServeJson(const ServeReport& report);

}  // namespace baton
