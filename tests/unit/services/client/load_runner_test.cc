#include "services/client/load_runner.h"

#include <gtest/gtest.h>

#include "services/router/inference_service.h"
#include "tests/fakes/fake_decode_worker.h"

namespace baton {
namespace {

class LoadRunnerTest : public testing::Test {
 protected:
  LoadTarget Target() const {
    return {.router = server_->address(),
            .timeout = std::chrono::milliseconds(20000),
            .vocab_size = 100};
  }
  static LoadPlanOptions Options(uint32_t request_count, double rate) {
    return {.request_count = request_count,
            .rate = rate,
            .prompt = *LengthDistribution::Parse("uniform:1:9", 100),
            .output = *LengthDistribution::Parse("3", 100)};
  }
  int calls() const {
    int calls = 0;
    for (const auto& worker : cluster_.workers) calls += worker.calls;
    return calls;
  }

  FakeCluster cluster_;
  InferenceService service_{cluster_.core.get()};
  std::unique_ptr<GrpcServer> server_ = *GrpcServer::Start("127.0.0.1:0", {&service_});
};

TEST_F(LoadRunnerTest, EveryRequestOfThePlanIsSentOnceAndRecorded) {
  const auto plan = PlanLoad(Options(20, 0));
  const LoadRun run = RunLoad(plan, 3, Target());
  EXPECT_EQ(calls(), 20);
  ASSERT_EQ(run.streams.size(), 20u);
  EXPECT_EQ(run.late_count, 0u);
  for (size_t i = 0; i < plan.size(); ++i) {
    const StreamRecord& stream = run.streams[i];
    ASSERT_TRUE(stream.status.ok()) << stream.status;
    EXPECT_EQ(stream.prompt_tokens, plan[i].prompt_tokens);
    EXPECT_EQ(stream.output_tokens(), 3u);
    EXPECT_GE(stream.start_s, run.begin_s);
    EXPECT_GE(stream.arrivals.front().at_s, stream.start_s);
    EXPECT_GE(stream.end_s, stream.arrivals.back().at_s);
  }
}

TEST_F(LoadRunnerTest, AnOpenLoopCountsFromThePlannedStart) {
  // As many as the router takes at once: none is refused however slow this machine is.
  const auto plan = PlanLoad(Options(8, 200));
  const LoadRun run = RunLoad(plan, 8, Target());
  for (size_t i = 0; i < plan.size(); ++i) {
    ASSERT_TRUE(run.streams[i].status.ok()) << run.streams[i].status;
    EXPECT_DOUBLE_EQ(run.streams[i].start_s, run.begin_s + plan[i].start_s);
    EXPECT_GE(run.streams[i].arrivals.front().at_s, run.streams[i].start_s);
  }
}

TEST_F(LoadRunnerTest, ErrorsAreRecorded) {
  for (auto& worker : cluster_.workers) {
    worker.tokens = {};
    worker.status = grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  }
  const LoadRun run = RunLoad(PlanLoad(Options(2, 0)), 1, Target());
  for (const StreamRecord& stream : run.streams) EXPECT_TRUE(absl::IsInternal(stream.status));
}

TEST_F(LoadRunnerTest, SteadyRowsDecodeUntilTheyAreStopped) {
  for (auto& worker : cluster_.workers) worker.hang = true;
  SteadyRows rows(2, Options(1, 0), Target());
  EXPECT_TRUE(rows.WaitDecoding().ok());
  const auto records = rows.Stop();
  ASSERT_EQ(records.size(), 2u);
  for (const StreamRecord& record : records) {
    EXPECT_TRUE(record.status.ok()) << record.status;
    EXPECT_GE(record.output_tokens(), 1u);
  }
}

TEST_F(LoadRunnerTest, ASteadyRowAsksAnewWhenItsAnswerHasEnded) {
  SteadyRows rows(1, Options(1, 0), Target());
  while (calls() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(rows.Stop().size(), 3u);
}

TEST_F(LoadRunnerTest, ASteadyRowThatFailsSaysWhy) {
  for (auto& worker : cluster_.workers) {
    worker.tokens = {};
    worker.status = grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  }
  SteadyRows rows(1, Options(1, 0), Target());
  EXPECT_TRUE(absl::IsInternal(rows.WaitDecoding()));
}

}  // namespace
}  // namespace baton
