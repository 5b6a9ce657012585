#include "services/client/router_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "services/router/inference_service.h"
#include "tests/fakes/fake_decode_worker.h"

namespace baton {
namespace {

class RouterClientTest : public testing::Test {
 protected:
  FakeCluster cluster_;
  InferenceService service_{cluster_.core.get()};
  std::unique_ptr<GrpcServer> server_ = *GrpcServer::Start("127.0.0.1:0", {&service_});
  RouterClient client_{server_->address(), std::chrono::milliseconds(20000)};
};

TEST_F(RouterClientTest, CallsAndAnswers) {
  v1::GenerateRequest request;
  request.set_text("x");
  std::string text;
  EXPECT_TRUE(
      client_.Generate(request, [&](const v1::GenerateResponse& m) { text += m.text(); }).ok());
  EXPECT_EQ(text, "abc12");
  EXPECT_EQ(client_.GetModel()->name(), "nano");
  EXPECT_EQ(client_.ListWorkers()->workers_size(), 3);
  v1::DetokenizeRequest ids;
  ids.add_ids(902);
  EXPECT_EQ(client_.Detokenize(ids)->text(), "ab");
  EXPECT_TRUE(absl::IsInvalidArgument(client_.Tokenize({}).status()));
}

TEST_F(RouterClientTest, CancelEndsTheRunningCallOnly) {
  EXPECT_FALSE(client_.Cancel());
  for (auto& worker : cluster_.workers) worker.hang = true;
  v1::GenerateRequest request;
  request.set_text("x");
  const absl::Status status =
      client_.Generate(request, [&](const v1::GenerateResponse&) { client_.Cancel(); });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(status.message(), "interrupted before the end");
  EXPECT_FALSE(client_.Cancel());
}

TEST_F(RouterClientTest, ALateAnswerIsGivenUpWithTheTimeInWords) {
  for (auto& worker : cluster_.workers) worker.hang = true;
  RouterClient hurried(server_->address(), std::chrono::milliseconds(250));
  v1::GenerateRequest request;
  request.set_text("x");
  const absl::Status status = hurried.Generate(request, [](const v1::GenerateResponse&) {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(status.message(), "not done within 250ms");
}

TEST_F(RouterClientTest, ARequestThatIsTooLongIsNotForAnotherTime) {
  v1::TokenizeRequest request;
  request.set_text(std::string(65 << 20, 'a'));
  const absl::Status status = client_.Tokenize(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("the request or its answer is too long"), std::string::npos)
      << status;
}

TEST(RouterClientTimeoutTest, AServerThatIsNoRouterIsCalledSo) {
  const auto server = *GrpcServer::Start("127.0.0.1:0", {});
  RouterClient client(server->address(), std::chrono::milliseconds(20000));
  const absl::Status status = client.GetModel().status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_NE(status.message().find("is it a router's address?"), std::string::npos);
  EXPECT_TRUE(absl::IsUnimplemented(client.Generate({}, [](const v1::GenerateResponse&) {})));
}

TEST(RouterClientTimeoutTest, WithoutARouterItIsUnavailable) {
  RouterClient client("127.0.0.1:1", std::chrono::milliseconds(20000));
  EXPECT_TRUE(absl::IsUnavailable(client.GetModel().status()));
}

}  // namespace
}  // namespace baton
