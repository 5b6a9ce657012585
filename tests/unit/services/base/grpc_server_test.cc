#include "services/base/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "services/base/peer_channel.h"
#include "services/base/status_service.h"

namespace baton {
namespace {

TEST(GrpcServerTest, PicksAPortAndRefusesATakenOne) {
  StatusService status({});
  const auto server = GrpcServer::Start("127.0.0.1:0", {&status});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_NE((*server)->address(), "127.0.0.1:0");
  StatusService other({});
  EXPECT_TRUE(absl::IsUnavailable(GrpcServer::Start((*server)->address(), {&other}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(GrpcServer::Start("nowhere", {&other}).status()));
}

TEST(GrpcServerTest, APeerConnectsAndNoticesTheEnd) {
  StatusService status({});
  auto server = GrpcServer::Start("127.0.0.1:0", {&status});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = MakePeerChannel((*server)->address());
  EXPECT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  server->reset();
  EXPECT_TRUE(channel->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() + std::chrono::seconds(20)));
}

}  // namespace
}  // namespace baton
