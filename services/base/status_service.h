// WorkerStatus: pushes a worker's report to everyone who watches; at once, on each change (at most
// every 50 ms) and at least every 250 ms, so that a watcher can tell a silent worker from an idle
// one. Owned by main; Update may be called from any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "baton/v1/worker.grpc.pb.h"
#include "services/base/worker_report.h"

namespace baton {

class StatusService final : public v1::WorkerStatus::CallbackService {
 public:
  explicit StatusService(WorkerReport initial);
  // The server must have been stopped.
  ~StatusService() override;

  void Update(WorkerReport report);
  // The worker announces that it drains; later updates keep saying so.
  void SetDraining();
  // Ends all watches, so that the server can stop.
  void EndWatches();

  grpc::ServerWriteReactor<v1::StatusReport>* Watch(grpc::CallbackServerContext* context,
                                                    const v1::WatchRequest* request) override;

 private:
  class Watcher;

  void Run();
  void Remove(Watcher* watcher);

  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  WorkerReport report_;
  uint64_t sequence_ = 1;
  bool dirty_ = false;
  bool draining_ = false;
  bool ended_ = false;
  bool stopping_ = false;
  // Shared with the publishing thread, which may still offer a report to a watcher that is ending.
  std::vector<std::shared_ptr<Watcher>> watchers_;
  std::thread thread_;
};

}  // namespace baton
