// Carries events from another thread to a test, which waits for each with a limit.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

namespace baton {

class EventQueue {
 public:
  void Push(std::string event) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    arrived_.notify_all();
  }
  // The oldest event, or "none" after the limit.
  std::string Pop(std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, limit, [this] { return !events_.empty(); })) return "none";
    std::string event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  bool Empty() const {
    std::lock_guard lock(mutex_);
    return events_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> events_;
};

}  // namespace baton
