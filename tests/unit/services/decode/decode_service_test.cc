#include "services/decode/decode_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "services/base/grpc_server.h"
#include "services/base/peer_channel.h"
#include "tests/fakes/scripted_backend.h"
#include "tests/fakes/scripted_prefill_client.h"

namespace baton {
namespace {

using testing::HasSubstr;

class DecodeServiceTest : public testing::Test {
 protected:
  DecodeServiceTest() {
    client_.AnswerByItself();
    DecodeEngineOptions options;
    options.runner = std::make_unique<ScriptedDecodeRunner>(4, 2, &state_);
    options.arena = *KvArena::Create({.layout = ScriptedLayout(65, 65), .incarnation = "arena"});
    options.client = &client_;
    options.metrics = &metrics_;
    options.limits = {.vocab_size = 10000,
                      .max_context_tokens = 2048,
                      .chunk_tokens = 128,
                      .layout = ScriptedLayout(65, 65)};
    engine_ = std::make_unique<DecodeEngine>(std::move(options));
    service_ = std::make_unique<DecodeService>(engine_.get(), &gate_, &sender_);
    server_ = *GrpcServer::Start("127.0.0.1:0", {service_.get()});
    stub_ = v1::DecodeWorker::NewStub(MakePeerChannel(server_->address()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  void AttachAll() {
    auto attach = client_.NextAttach();
    ASSERT_TRUE(attach);
    engine_->OnPeerEvent({.kind = KvPeerEvent::Kind::kAttached, .incarnation = "P"});
    attach->done(AttachAnswer{.incarnation = "P"});
  }
  static v1::DecodeRequest Request(uint32_t max_tokens) {
    v1::DecodeRequest request;
    request.add_token_ids(7);
    request.mutable_sampling()->set_max_tokens(max_tokens);
    request.add_prefill_workers("p1");
    return request;
  }

  Metrics registry_{"decode"};
  DecodeMetrics metrics_{registry_};
  ScriptedDecodeState state_;
  ScriptedPrefillClient client_;
  DrainGate gate_;
  std::unique_ptr<DecodeEngine> engine_;
  SerialExecutor sender_;
  std::unique_ptr<DecodeService> service_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::DecodeWorker::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(DecodeServiceTest, StreamsEveryTokenThenUsage) {
  const auto reader = stub_->Generate(&context_, Request(50));
  AttachAll();
  std::vector<int32_t> tokens;
  v1::DecodeResponse message;
  while (reader->Read(&message)) {
    tokens.insert(tokens.end(), message.token_ids().begin(), message.token_ids().end());
  }
  EXPECT_TRUE(reader->Finish().ok());
  ASSERT_EQ(tokens.size(), 50u);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], 8 + static_cast<int32_t>(i));
  EXPECT_EQ(message.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(message.usage().completion_tokens(), 50u);
  EXPECT_TRUE(gate_.WaitEmpty(std::chrono::seconds(20)));
}

TEST_F(DecodeServiceTest, ACancelledCallEndsAndLeavesNothing) {
  const auto reader = stub_->Generate(&context_, Request(2000));
  AttachAll();
  v1::DecodeResponse message;
  ASSERT_TRUE(reader->Read(&message));
  context_.TryCancel();
  while (reader->Read(&message)) {
  }
  EXPECT_TRUE(gate_.WaitEmpty(std::chrono::seconds(20)));
}

TEST_F(DecodeServiceTest, RefusalsCarryTheirReason) {
  v1::DecodeRequest request = Request(5);
  request.set_token_ids(0, 99999);
  v1::DecodeResponse message;
  const auto reader = stub_->Generate(&context_, request);
  EXPECT_FALSE(reader->Read(&message));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("token_ids[0]"));
}

TEST_F(DecodeServiceTest, ADrainingWorkerRefuses) {
  gate_.BeginDrain();
  v1::DecodeResponse message;
  const auto reader = stub_->Generate(&context_, Request(5));
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace baton
