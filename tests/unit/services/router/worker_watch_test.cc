#include "services/router/worker_watch.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "services/base/grpc_server.h"
#include "services/base/peer_channel.h"
#include "services/base/status_service.h"

namespace baton {
namespace {

class WorkerWatchTest : public testing::Test {
 protected:
  void Watch(const std::string& address) {
    address_ = address;
    directory_.AddWorker(address, WorkerRole::kDecode);
    watch_ = std::make_unique<WorkerWatch>(
        &directory_,
        std::map<std::string, std::shared_ptr<grpc::Channel>>{{address, MakePeerChannel(address)}},
        [this] {
          std::lock_guard lock(mutex_);
          changed_.notify_all();
        });
  }
  bool WaitState(WorkerState state) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      return directory_.Snapshot(std::chrono::steady_clock::now())[0].state == state;
    });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  WorkerDirectory directory_{std::chrono::milliseconds(5000)};
  std::string address_;
  std::unique_ptr<WorkerWatch> watch_;
};

TEST_F(WorkerWatchTest, FollowsAWorkerThroughItsLives) {
  StatusService first({.role = WorkerRole::kDecode, .incarnation = "1", .ready = true});
  auto server = *GrpcServer::Start("127.0.0.1:0", {&first});
  const std::string address = server->address();
  Watch(address);
  ASSERT_TRUE(WaitState(WorkerState::kReady));
  first.SetDraining();
  ASSERT_TRUE(WaitState(WorkerState::kDraining));
  first.EndWatches();
  server.reset();
  ASSERT_TRUE(WaitState(WorkerState::kDown));
  StatusService second({.role = WorkerRole::kDecode, .incarnation = "2", .ready = true});
  server = *GrpcServer::Start(address, {&second});
  ASSERT_TRUE(WaitState(WorkerState::kReady));
  EXPECT_EQ(directory_.Snapshot(std::chrono::steady_clock::now())[0].report.incarnation, "2");
  watch_.reset();  // Ends its stream.
  second.EndWatches();
  server.reset();  // Before the service that it serves goes.
}

TEST_F(WorkerWatchTest, AWorkerThatIsNotThereIsDown) {
  Watch("127.0.0.1:1");
  EXPECT_TRUE(WaitState(WorkerState::kDown));
}

}  // namespace
}  // namespace baton
