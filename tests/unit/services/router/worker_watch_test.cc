#include "services/router/worker_watch.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "services/base/grpc_server.h"
#include "services/base/peer_channel.h"
#include "services/base/status_service.h"
#include "tests/fakes/gate.h"

namespace baton {
namespace {

class WorkerWatchTest : public testing::Test {
 protected:
  explicit WorkerWatchTest(std::chrono::milliseconds timeout = std::chrono::milliseconds(5000))
      : directory_(timeout) {}
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
  WorkerDirectory directory_;
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

// Its stream has ended and the watch is being told while it goes: what it cancels must still be
// there.
TEST(WorkerWatchEndTest, MayGoWhileAStreamEnds) {
  const std::string address = "127.0.0.1:1";  // Nobody is there: the stream ends at once.
  WorkerDirectory directory{std::chrono::milliseconds(5000)};
  directory.AddWorker(address, WorkerRole::kDecode);
  std::mutex mutex;  // Guards own_thread.
  std::optional<std::thread::id> own_thread;
  Gate ends;
  auto watch = std::make_unique<WorkerWatch>(
      &directory,
      std::map<std::string, std::shared_ptr<grpc::Channel>>{{address, MakePeerChannel(address)}},
      [&] {
        {
          std::lock_guard lock(mutex);
          // The watch's own thread, as a rule, is there before any stream; else nothing is held.
          if (!own_thread) own_thread = std::this_thread::get_id();
          if (*own_thread == std::this_thread::get_id()) return;
        }
        ends.Pass();  // gRPC's thread, in the middle of telling the watch of the stream's end.
      });
  ASSERT_TRUE(ends.WaitArrived(1));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ends.Open();
  });
  watch.reset();
  opener.join();
}

TEST_F(WorkerWatchTest, AWorkerThatIsNotThereIsDown) {
  Watch("127.0.0.1:1");
  EXPECT_TRUE(WaitState(WorkerState::kDown));
}

// Reports once and then nothing.
class SilentWorker final : public v1::WorkerStatus::Service {
 public:
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::StatusReport>* writer) override {
    v1::StatusReport report;
    report.set_role("decode");
    report.set_ready(true);
    writer->Write(report);
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::OK;
  }
};

class ImpatientWatchTest : public WorkerWatchTest {
 protected:
  ImpatientWatchTest() : WorkerWatchTest(std::chrono::milliseconds(300)) {}
};

TEST_F(ImpatientWatchTest, ASilentWorkerIsLostForItsSilence) {
  SilentWorker worker;
  const auto server = *GrpcServer::Start("127.0.0.1:0", {&worker});
  Watch(server->address());
  const auto reason = [this] {
    return directory_.Snapshot(std::chrono::steady_clock::now())[0].reason;
  };
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] {
    return reason() == "lost: silent for too long";
  })) << reason();
  lock.unlock();
  watch_.reset();
}

}  // namespace
}  // namespace baton
