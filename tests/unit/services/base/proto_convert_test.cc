#include "services/base/proto_convert.h"

#include <gtest/gtest.h>

#include <limits>

namespace baton {
namespace {

TEST(ProtoConvertTest, SamplingIsChecked) {
  v1::SamplingParams message;
  message.set_temperature(0.5f);
  message.set_seed(7);
  const auto sampling = FromProto(message);
  ASSERT_TRUE(sampling.ok());
  EXPECT_EQ(sampling->temperature, 0.5f);
  EXPECT_EQ(sampling->seed, 7u);
  for (float wrong : {-0.1f, 100.5f, std::numeric_limits<float>::quiet_NaN(),
                      std::numeric_limits<float>::infinity()}) {
    message.set_temperature(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(FromProto(message).status())) << wrong;
  }
}

// Logits over a temperature near zero overflow, and what overflows is no longer told apart.
TEST(ProtoConvertTest, TemperaturesNextToZeroAreGreedy) {
  v1::SamplingParams message;
  for (float least : {std::numeric_limits<float>::denorm_min(), 1e-38f, 9e-13f}) {
    message.set_temperature(least);
    EXPECT_EQ(FromProto(message)->temperature, 0.0f) << least;
  }
  message.set_temperature(kLeastTemperature);
  EXPECT_EQ(FromProto(message)->temperature, kLeastTemperature);
}

TEST(ProtoConvertTest, ReportsSurviveBothWays) {
  const WorkerReport report{.role = WorkerRole::kPrefill,
                            .incarnation = "abc",
                            .ready = true,
                            .draining = true,
                            .reason = "why",
                            .model_fingerprint = 1,
                            .device = "cpu",
                            .running = 2,
                            .waiting = 3,
                            .max_rows = 4,
                            .max_waiting = 5,
                            .queued_prompt_tokens = 6,
                            .full_pages = 7,
                            .full_pages_used = 8,
                            .window_pages = 9,
                            .window_pages_used = 10,
                            .quarantined_pages = 11,
                            .max_context_tokens = 12,
                            .prefills_itself = true,
                            .transports = {{"p", "posix_shm", 1e9, 2e9}}};
  EXPECT_EQ(FromProto(ToProto(report, 1)), report);
  EXPECT_EQ(ToProto(report, 99).sequence(), 99u);
}

TEST(ProtoConvertTest, TheLastMessageCarriesUsage) {
  TokenChannel::Batch batch{.tokens = {{.token = 5, .logprob = -1}}};
  EXPECT_FALSE(ToProto(batch).has_usage());
  batch.ended = true;
  batch.end = {.finish = FinishReason::kStop, .prompt_tokens = 3, .completion_tokens = 2};
  const v1::DecodeResponse message = ToProto(batch);
  EXPECT_EQ(message.token_ids(0), 5);
  EXPECT_EQ(message.logprobs(0), -1.0f);
  EXPECT_EQ(message.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(message.usage().prompt_tokens(), 3u);
  EXPECT_EQ(message.usage().completion_tokens(), 2u);
}

TEST(ProtoConvertTest, FinishReasonsMatch) {
  for (FinishReason finish : {FinishReason::kNone, FinishReason::kStop, FinishReason::kLength}) {
    EXPECT_EQ(FromProto(ToProto(finish)), finish);
  }
  EXPECT_EQ(ToProto(FinishReason::kError), v1::FINISH_REASON_UNSPECIFIED);
}

}  // namespace
}  // namespace baton
