// WorkerWatch: keeps a WorkerStatus.Watch stream open to each worker and feeds the directory. A
// stream that breaks makes the worker down at once; it is opened again with a growing pause. Owned
// by the router's main; runs one thread for the pauses and for silent workers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/channel.h>

#include "services/router/worker_directory.h"

namespace baton {

class WorkerWatch {
 public:
  // `channels` by worker address; all workers are in `directory`. `on_change` runs after each
  // report and loss, and a few times a second, on any thread; it must be quick.
  WorkerWatch(WorkerDirectory* directory,
              std::map<std::string, std::shared_ptr<grpc::Channel>> channels,
              std::function<void()> on_change);
  // Cancels all streams and waits for their end.
  ~WorkerWatch();

 private:
  class Stream;
  using Clock = std::chrono::steady_clock;
  struct Worker {
    std::shared_ptr<grpc::Channel> channel;
    bool open = false;         // A stream is there, or its end is being dealt with.
    Stream* stream = nullptr;  // Owns itself; null once it is about to go.
    Clock::time_point next_try;
    std::chrono::milliseconds pause{0};
  };

  void Run();
  void OnReport(const std::string& address, const WorkerReport& report);
  void Disown(const std::string& address);
  void OnStreamEnd(const std::string& address, const std::string& reason);

  WorkerDirectory* const directory_;
  const std::function<void()> on_change_;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::map<std::string, Worker> workers_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace baton
