// WorkerDirectory: what the router knows about its workers: their last reports, whether they are
// there, and the requests that this router has on them. Knows nothing of gRPC: WorkerWatch feeds
// it. Thread-safe; time is passed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "services/base/worker_report.h"
#include "services/router/routing_policy.h"

namespace baton {

class WorkerDirectory {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A worker that is silent for `timeout` counts as down.
  explicit WorkerDirectory(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // At start, before the rest.
  void AddWorker(const std::string& address, WorkerRole role);

  void OnReport(const std::string& address, const WorkerReport& report, TimePoint now);
  void OnLost(const std::string& address, const std::string& reason);

  // One request more on a decode worker; its prompt burdens a prefill worker until EndPrefill,
  // if the route has one.
  void Begin(const Route& route, uint32_t prompt_tokens);
  void EndPrefill(const Route& route, uint32_t prompt_tokens);
  void End(const Route& route);

  std::vector<WorkerView> Snapshot(TimePoint now) const;
  bool IsSilent(const std::string& address, TimePoint now) const;

 private:
  struct Entry {
    WorkerView view;
    TimePoint last_report;
  };

  bool Silent(const Entry& entry, TimePoint now) const;

  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;  // Guards all below.
  std::map<std::string, Entry> workers_;
};

}  // namespace baton
