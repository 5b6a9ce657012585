// Closures that other threads leave for one owner thread: how gRPC callbacks reach an engine. The
// number of closures is bounded by admission (each live request has a few at most), never by
// blocking a gRPC thread. Any thread posts; one thread drains.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace baton {

class Mailbox {
 public:
  using Closure = std::function<void()>;
  using TimePoint = std::chrono::steady_clock::time_point;

  // False once closed: the closure is dropped.
  bool Post(Closure closure) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      closures_.push_back(std::move(closure));
    }
    ready_.notify_one();
    return true;
  }

  // Everything posted so far, without waiting.
  std::vector<Closure> Drain() {
    std::lock_guard lock(mutex_);
    return std::exchange(closures_, {});
  }

  // Waits for a closure, for Close, or until `deadline` (nullopt: for ever), then drains.
  std::vector<Closure> WaitAndDrain(std::optional<TimePoint> deadline) {
    std::unique_lock lock(mutex_);
    const auto has_work = [this] { return closed_ || !closures_.empty(); };
    if (deadline) {
      ready_.wait_until(lock, *deadline, has_work);
    } else {
      ready_.wait(lock, has_work);
    }
    return std::exchange(closures_, {});
  }

  // Ends WaitAndDrain for good; what was posted before is still handed out.
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable ready_;
  std::vector<Closure> closures_;
  bool closed_ = false;
};

}  // namespace baton
