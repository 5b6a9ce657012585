#include "services/base/grpc_server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>

#include "services/base/peer_channel.h"
#include "services/base/status_service.h"

namespace baton {
namespace {

// One Check call of grpc.health.v1, whose proto is not among this project's: bytes in, bytes out.
// The answer is not valid if the call failed.
grpc::ByteBuffer CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const grpc::Slice slice(request);
  const grpc::ByteBuffer message(&slice, 1);
  grpc::ByteBuffer answer;
  std::promise<bool> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &message, &answer,
                 [&done](grpc::Status status) { done.set_value(status.ok()); });
  return done.get_future().get() ? answer : grpc::ByteBuffer();
}

TEST(GrpcServerTest, PicksAPortAndRefusesATakenOne) {
  StatusService status({});
  const auto server = GrpcServer::Start("127.0.0.1:0", {&status});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_NE((*server)->address(), "127.0.0.1:0");
  StatusService other({});
  EXPECT_TRUE(absl::IsUnavailable(GrpcServer::Start((*server)->address(), {&other}).status()));
  for (const char* wrong :
       {"nowhere", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(GrpcServer::Start(wrong, {&other}).status())) << wrong;
  }
}

TEST(GrpcServerTest, HealthAnswersForTheProcessAndForEachService) {
  StatusService status({});
  const auto server = *GrpcServer::Start("127.0.0.1:0", {&status}, {"baton.v1.WorkerStatus"});
  const auto channel = MakePeerChannel(server->address());
  const auto health = [&](const std::string& service) {
    const std::string name_field = "\x0a" + std::string(1, static_cast<char>(service.size()));
    const grpc::ByteBuffer answer =
        CheckHealth(channel, service.empty() ? "" : name_field + service);
    std::vector<grpc::Slice> slices;
    if (!answer.Valid() || !answer.Dump(&slices).ok() || slices.size() != 1) return -1;
    return slices[0].size() == 2 ? slices[0].begin()[1]
                                 : 0;  // Field 1, HealthCheckResponse.status.
  };
  constexpr int kServing = 1;
  constexpr int kNotServing = 2;
  EXPECT_EQ(health(""), kNotServing);
  EXPECT_EQ(health("baton.v1.WorkerStatus"), kNotServing);
  server->SetServing(true);
  EXPECT_EQ(health(""), kServing);
  EXPECT_EQ(health("baton.v1.WorkerStatus"), kServing);
  EXPECT_EQ(health("baton.v1.Inference"), -1) << "not served here";
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
