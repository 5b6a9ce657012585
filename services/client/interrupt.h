// Interrupt: Ctrl-C as a call. While it lives, SIGINT runs `on_interrupt` on a thread of its own
// instead of ending the process. One at a time, made by main before other threads start.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace baton {

class Interrupt {
 public:
  explicit Interrupt(std::function<void()> on_interrupt);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  const std::function<void()> on_interrupt_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace baton
