// Holds another thread at a place until the test lets it go on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace baton {

class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    const int mine = ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || allowed_ >= mine; });
  }
  // Lets `count` more pass.
  void Allow(int count) {
    std::lock_guard lock(mutex_);
    allowed_ += count;
    changed_.notify_all();
  }
  // Holds nobody any more.
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool WaitArrived(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return arrived_ >= count; });
  }
  int arrived() {
    std::lock_guard lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  int arrived_ = 0;
  int allowed_ = 0;
  bool open_ = false;
};

}  // namespace baton
