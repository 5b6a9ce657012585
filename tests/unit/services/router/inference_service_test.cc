#include "services/router/inference_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_decode_worker.h"

namespace baton {
namespace {

using testing::ElementsAre;

class InferenceServiceTest : public testing::Test {
 protected:
  InferenceServiceTest() {
    server_ = *GrpcServer::Start("127.0.0.1:0", {&service_});
    stub_ = v1::Inference::NewStub(MakePeerChannel(server_->address()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }

  FakeCluster cluster_;
  InferenceService service_{cluster_.core.get()};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(InferenceServiceTest, TokenizesTextWithoutSpecialTokens) {
  v1::TokenizeRequest request;
  request.set_text("abc1234def");
  v1::TokenizeResponse response;
  ASSERT_TRUE(stub_->Tokenize(&context_, request, &response).ok());
  EXPECT_THAT(response.ids(), ElementsAre(902, 85, 1071, 37, 38, 338));
}

TEST_F(InferenceServiceTest, TokenizesChatAndShowsTheRenderedText) {
  v1::TokenizeRequest request;
  request.mutable_chat()->set_messages_json(R"([{"role": "user", "content": "Hi"}])");
  v1::TokenizeResponse response;
  ASSERT_TRUE(stub_->Tokenize(&context_, request, &response).ok());
  EXPECT_EQ(response.ids_size(), 11);
  EXPECT_THAT(response.rendered(), testing::HasSubstr("<|USER_TOKEN|>"));
}

TEST_F(InferenceServiceTest, NothingToTokenizeIsInvalid) {
  v1::TokenizeResponse response;
  EXPECT_EQ(stub_->Tokenize(&context_, {}, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(InferenceServiceTest, Detokenizes) {
  v1::DetokenizeRequest request;
  for (int id : {902, 85, 1071, 37, 38, 338}) request.add_ids(id);
  v1::DetokenizeResponse response;
  ASSERT_TRUE(stub_->Detokenize(&context_, request, &response).ok());
  EXPECT_EQ(response.text(), "abc1234def");
}

// A vocabulary can give a hundred bytes of text for one byte of the request.
TEST_F(InferenceServiceTest, ATextThatNobodyCanTakeIsRefused) {
  v1::DetokenizeRequest request;
  for (int i = 0; i < 1'500'000; ++i) request.add_ids(2840);  // 194 bytes each.
  v1::DetokenizeResponse response;
  const grpc::Status status = stub_->Detokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
}

TEST_F(InferenceServiceTest, DescribesModelAndWorkers) {
  v1::GetModelResponse model;
  ASSERT_TRUE(stub_->GetModel(&context_, {}, &model).ok());
  EXPECT_EQ(model.name(), "nano");
  EXPECT_EQ(model.context_tokens(), 1000u) << "what the workers can hold";
  EXPECT_EQ(model.vocab_size(), 4096u);
  EXPECT_TRUE(model.has_chat_template());
  cluster_.directory.OnLost("prefill:1", "gone");
  grpc::ClientContext context;
  v1::ListWorkersResponse workers;
  ASSERT_TRUE(stub_->ListWorkers(&context, {}, &workers).ok());
  ASSERT_EQ(workers.workers_size(), 3);
  EXPECT_EQ(workers.workers(2).address(), "prefill:1");
  EXPECT_EQ(workers.workers(2).state(), "down");
  EXPECT_EQ(workers.workers(2).reason(), "gone");
  EXPECT_EQ(workers.workers(0).state(), "ready");
}

}  // namespace
}  // namespace baton
