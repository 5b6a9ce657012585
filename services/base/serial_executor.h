// One thread that runs posted closures in order. Services use it to move work that may be slow
// (serialising and sending a gRPC message) off an engine's owner thread.
#pragma once

#include <functional>
#include <thread>

#include "services/base/mailbox.h"

namespace baton {

class SerialExecutor {
 public:
  SerialExecutor();
  // Runs what was posted before, then joins the thread.
  ~SerialExecutor();
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Any thread. Dropped once destruction has begun.
  void Post(std::function<void()> closure) { mailbox_.Post(std::move(closure)); }

 private:
  void Run();

  Mailbox mailbox_;
  std::thread thread_;
};

}  // namespace baton
