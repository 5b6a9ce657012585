// Counts the requests in flight and closes the door when the process drains. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"

namespace baton {

class DrainGate {
 public:
  // Unavailable once draining, ResourceExhausted while `most` are in flight; otherwise the caller
  // owes one Leave.
  absl::Status Enter(uint32_t most = UINT32_MAX);
  void Leave();

  void BeginDrain();
  bool draining() const;
  uint32_t in_flight_count() const;
  // True if nothing is in flight any more before `timeout` has passed.
  bool WaitEmpty(std::chrono::milliseconds timeout);

 private:
  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable empty_;
  uint32_t in_flight_count_ = 0;
  bool draining_ = false;
};

}  // namespace baton
