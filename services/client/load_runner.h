// Sends a load to a router and writes down when tokens came. The edge of `baton bench serve`: it
// owns threads and connections, and decides nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "services/client/load_plan.h"
#include "services/client/router_client.h"
#include "services/client/serve_stats.h"

namespace baton {

struct LoadTarget {
  std::string router;
  std::chrono::milliseconds timeout{0};
  uint32_t vocab_size = 0;
};

// Seconds on the clock of all StreamRecords.
double LoadClockSeconds();

struct LoadRun {
  std::vector<StreamRecord> streams;  // In the order of the plan.
  double begin_s = 0;
  size_t late_count = 0;  // Requests that found no free lane when they were due.
};

// Runs the plan on `lane_count` connections, a thread each: a lane takes the next request, waits
// until it is due and sees it through.
LoadRun RunLoad(const std::vector<PlannedRequest>& plan, size_t lane_count,
                const LoadTarget& target);

// Rows that decode all the while: each a connection that asks anew as soon as an answer has ended.
class SteadyRows {
 public:
  SteadyRows(uint32_t row_count, const LoadPlanOptions& lengths, const LoadTarget& target);
  ~SteadyRows();
  SteadyRows(const SteadyRows&) = delete;
  SteadyRows& operator=(const SteadyRows&) = delete;

  // Until every row has a token. The error of a row that failed first.
  absl::Status WaitDecoding();
  // Cancels what runs. The records of all rows; the ones that were cancelled count as well ended.
  std::vector<StreamRecord> Stop();

 private:
  struct Row {
    std::unique_ptr<RouterClient> client;
    std::atomic<bool> decoding{false};
    std::vector<StreamRecord> records;  // The thread's own until it is joined.
    std::thread thread;
  };

  void Run(Row& row, LoadPlanOptions lengths);

  const LoadTarget target_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  absl::Status failure_;  // Guarded by mutex_.
  std::vector<std::unique_ptr<Row>> rows_;
};

}  // namespace baton
