#include "services/base/status_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "services/base/grpc_server.h"
#include "services/base/peer_channel.h"

namespace baton {
namespace {

class StatusServiceTest : public testing::Test {
 protected:
  StatusServiceTest() {
    server_ = *GrpcServer::Start("127.0.0.1:0", {&service_});
    stub_ = v1::WorkerStatus::NewStub(MakePeerChannel(server_->address()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    reader_ = stub_->Watch(&context_, {});
  }
  // Reads until a report with `running`.
  bool ReadUntilRunning(uint32_t running) {
    while (reader_->Read(&report_)) {
      EXPECT_GT(report_.sequence(), last_sequence_);
      last_sequence_ = report_.sequence();
      if (report_.running() == running) return true;
    }
    return false;
  }

  StatusService service_{{.incarnation = "me", .ready = true}};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::WorkerStatus::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::StatusReport>> reader_;
  v1::StatusReport report_;
  uint64_t last_sequence_ = 0;
};

TEST_F(StatusServiceTest, SaysAtOnceHowItIsThenEveryChange) {
  ASSERT_TRUE(ReadUntilRunning(0));
  EXPECT_EQ(report_.incarnation(), "me");
  service_.Update({.incarnation = "me", .ready = true, .running = 5});
  EXPECT_TRUE(ReadUntilRunning(5));
}

TEST_F(StatusServiceTest, RepeatsItselfWithoutAChange) {
  ASSERT_TRUE(ReadUntilRunning(0));
  ASSERT_TRUE(ReadUntilRunning(0));
  ASSERT_TRUE(ReadUntilRunning(0));
}

TEST_F(StatusServiceTest, DrainingStaysThroughUpdates) {
  service_.SetDraining();
  service_.Update({.incarnation = "me", .ready = true, .running = 1});
  ASSERT_TRUE(ReadUntilRunning(1));
  EXPECT_TRUE(report_.draining());
}

TEST_F(StatusServiceTest, EndWatchesLetsTheServerStop) {
  ASSERT_TRUE(ReadUntilRunning(0));
  service_.EndWatches();
  EXPECT_FALSE(ReadUntilRunning(77));
  EXPECT_EQ(reader_->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace baton
