#include "services/router/generate_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>

#include <algorithm>

#include "absl/strings/str_split.h"
#include "common/log.h"
#include "services/router/inference_service.h"
#include "tests/fakes/fake_decode_worker.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GenerateCallTest : public testing::Test {
 protected:
  GenerateCallTest() {
    service_ = std::make_unique<InferenceService>(cluster_.core.get());
    server_ = *GrpcServer::Start("127.0.0.1:0", {service_.get()});
    stub_ = v1::Inference::NewStub(MakePeerChannel(server_->address()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    request_.mutable_token_ids()->add_ids(7);
  }
  ~GenerateCallTest() override {
    EXPECT_TRUE(cluster_.core->gate().WaitEmpty(std::chrono::seconds(20)));
    EXPECT_EQ(cluster_.in_flight(), 0u) << "the directory still counts a request";
  }
  grpc::Status Generate() {
    const auto reader = stub_->Generate(&context_, request_);
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
      messages_.push_back(message);
      text_ += message.text();
    }
    return reader->Finish();
  }
  int calls() const { return cluster_.workers[0].calls + cluster_.workers[1].calls; }
  // Finished calls with this code in the router's metrics.
  double Counted(const std::string& code) {
    return cluster_.registry
        .AddCounter({"requests_total", "Generate calls by status code.", {{"code", code}}})
        .Value();
  }
  void SetBoth(const grpc::Status& status, std::vector<int32_t> tokens) {
    for (auto& worker : cluster_.workers) {
      worker.status = status;
      worker.tokens = tokens;
    }
  }

  FakeCluster cluster_;
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  std::vector<v1::GenerateResponse> messages_;
  std::string text_;
};

TEST_F(GenerateCallTest, StreamsTextWithIdSeedAndUsage) {
  request_.set_request_id("mine");
  request_.mutable_sampling()->set_seed(5);
  request_.mutable_sampling()->set_max_tokens(3);
  const grpc::Status status = Generate();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(text_, "abc12");
  EXPECT_EQ(messages_.front().request_id(), "mine");
  EXPECT_EQ(messages_.front().seed(), 5u);
  EXPECT_EQ(messages_.front().logprobs_size(), 0) << "not asked for";
  EXPECT_EQ(messages_.back().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(messages_.back().usage().completion_tokens(), 3u);
  const auto& sent = cluster_.workers[cluster_.workers[0].calls > 0 ? 0 : 1].last_request;
  EXPECT_THAT(sent.prefill_workers(), ElementsAre("prefill:1"));
  EXPECT_EQ(sent.sampling().max_tokens(), 3u);
  EXPECT_THAT(sent.stop_token_ids(), ElementsAre(5, 3));
}

// The line that the router logs for a request with this id, which it refuses.
class GenerateCallLogTest : public GenerateCallTest {
 protected:
  // Before any thread logs.
  static void SetUpTestSuite() { InitLogging("router", "info"); }

  std::string Refusal(const std::string& request_id) {
    grpc::ClientContext context;
    request_.set_request_id(request_id);
    request_.set_model("none\nlevel=error \"x\"");
    testing::internal::CaptureStderr();
    v1::GenerateResponse message;
    const auto reader = stub_->Generate(&context, request_);
    EXPECT_FALSE(reader->Read(&message));
    EXPECT_FALSE(reader->Finish().ok());
    EXPECT_TRUE(cluster_.core->gate().WaitEmpty(std::chrono::seconds(20)));
    return testing::internal::GetCapturedStderr();
  }
};

bool EachLineIsAnEvent(const std::string& log) {
  const std::vector<std::string> lines = absl::StrSplit(log, '\n', absl::SkipEmpty());
  return std::all_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return line.starts_with("time="); });
}

TEST_F(GenerateCallLogTest, ARefusedRequestIsOneLineWithItsId) {
  const std::string line = Refusal("mine");
  EXPECT_THAT(line, HasSubstr("msg=\"request done\" request_id=mine code=NOT_FOUND"));
  EXPECT_THAT(line, HasSubstr(R"(found \"none\nlevel=error \"x\"\"")"));
  EXPECT_TRUE(EachLineIsAnEvent(line)) << line;
  EXPECT_THAT(Refusal(""), HasSubstr("request_id=req-"));
}

TEST_F(GenerateCallLogTest, AnIdThatIsRefusedIsNotLogged) {
  const std::string line = Refusal("a\nb");
  EXPECT_THAT(line, HasSubstr("request_id=req-"));
  EXPECT_TRUE(EachLineIsAnEvent(line)) << line;
}

TEST_F(GenerateCallTest, AWorkerThatFailsBeforeTheFirstTokenIsReplaced) {
  cluster_.workers[0].status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "dying");
  cluster_.workers[0].tokens = {};
  // Both workers are equal in the policy's eyes: make sure that the bad one is hit, too.
  for (int i = 0; i < 20 && cluster_.workers[0].calls == 0; ++i) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request_);
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
  }
  EXPECT_GT(cluster_.workers[0].calls, 0);
}

TEST_F(GenerateCallTest, AFailureAfterTheFirstTokenIsTheClients) {
  SetBoth(grpc::Status(grpc::StatusCode::UNAVAILABLE, "dying"), {902});
  const grpc::Status status = Generate();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("dying"));
  EXPECT_EQ(calls(), 1);
}

TEST_F(GenerateCallTest, TriesEachWorkerOnceThenGivesUp) {
  SetBoth(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"), {});
  const grpc::Status status = Generate();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(calls(), 2);
}

TEST_F(GenerateCallTest, ARefusalIsNotRetried) {
  SetBoth(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "token_ids"), {});
  EXPECT_EQ(Generate().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(calls(), 1);
}

TEST_F(GenerateCallTest, CancellingTheCallCancelsTheWorkers) {
  SetBoth(grpc::Status::OK, {902});
  for (auto& worker : cluster_.workers) worker.hang = true;
  const auto reader = stub_->Generate(&context_, request_);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  context_.TryCancel();
  while (reader->Read(&message)) {
  }
  EXPECT_TRUE(cluster_.core->gate().WaitEmpty(std::chrono::seconds(20)));
  for (int i = 0; i < 20000 && cluster_.workers[0].cancelled + cluster_.workers[1].cancelled == 0;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(cluster_.workers[0].cancelled + cluster_.workers[1].cancelled, 1);
  EXPECT_EQ(Counted("CANCELLED"), 1) << "a client's cancel is no failure of a worker";
  EXPECT_EQ(Counted("UNAVAILABLE"), 0);
}

TEST_F(GenerateCallTest, ADeadlineIsNoFailureOfAWorker) {
  SetBoth(grpc::Status::OK, {902});
  for (auto& worker : cluster_.workers) worker.hang = true;
  context_.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1000));
  EXPECT_EQ(Generate().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(cluster_.core->gate().WaitEmpty(std::chrono::seconds(20)));
  // The client's clock may end the call a moment before the router's does.
  EXPECT_EQ(Counted("DEADLINE_EXCEEDED") + Counted("CANCELLED"), 1);
  // None on a machine so slow that the time is over before the first.
  EXPECT_LE(calls(), 1) << "not tried elsewhere";
}

TEST_F(GenerateCallTest, WithoutAPairItIsUnavailable) {
  cluster_.directory.OnLost("prefill:1", "gone");
  EXPECT_EQ(Generate().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(calls(), 0);
}

}  // namespace
}  // namespace baton
