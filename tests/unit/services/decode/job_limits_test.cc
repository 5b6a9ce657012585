#include "services/decode/job_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/scripted_backend.h"

namespace baton {
namespace {

using testing::HasSubstr;

JobLimits Limits() {
  return {.vocab_size = 100,
          .max_context_tokens = 1000,
          .chunk_tokens = 128,
          .layout = ScriptedLayout(9, 9)};
}

DecodeJob Job() { return {.prompt = {1, 2, 3}, .max_tokens = 4}; }

std::string Refusal(const DecodeJob& job) {
  const absl::Status status = CheckJob(job, Limits());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(CheckJobTest, TakesWhatFits) { EXPECT_TRUE(CheckJob(Job(), Limits()).ok()); }

TEST(CheckJobTest, NamesFieldWantedAndFound) {
  DecodeJob job = Job();
  job.prompt = {};
  EXPECT_THAT(Refusal(job), HasSubstr("token_ids: wanted at least 1"));
  job = Job();
  job.max_tokens = 0;
  EXPECT_THAT(Refusal(job), HasSubstr("max_tokens: wanted at least 1"));
  job = Job();
  job.prompt[1] = 100;
  EXPECT_THAT(Refusal(job), HasSubstr("token_ids[1]: wanted 0 to 99, found 100"));
  job.prompt[1] = -1;
  EXPECT_THAT(Refusal(job), HasSubstr("found -1"));
  job = Job();
  job.stop_ids.assign(17, 1);
  EXPECT_THAT(Refusal(job), HasSubstr("stop_token_ids: wanted at most 16, found 17"));
}

TEST(CheckJobTest, RefusesWhatTheContextCannotHold) {
  DecodeJob job = Job();
  job.max_tokens = 998;
  EXPECT_THAT(Refusal(job), HasSubstr("wanted at most 1000 tokens, found 3 + 998"));
  job.max_tokens = 4000000000u;
  EXPECT_THAT(Refusal(job), HasSubstr("found 3 + 4000000000"));
}

TEST(CheckJobTest, RefusesWhatTheArenaCanNeverHold) {
  DecodeJob job = Job();
  job.max_tokens = 8 * kPageTokens - 3;  // 8 pages: exactly the arena.
  EXPECT_TRUE(CheckJob(job, Limits()).ok());
  job.max_tokens += 1;
  EXPECT_THAT(Refusal(job), HasSubstr("needs 9 KV pages, the arena has 8"));
}

TEST(CheckJobTest, CountsPagesOfBothGroups) {
  DecodeJob job = Job();
  job.max_tokens = 500;
  EXPECT_EQ(FullPagesOf(job), 8u);
  EXPECT_EQ(WindowPagesOf(job, Limits()), WindowPagesFor(503, 64, 128));
}

TEST(IsInlineTest, OnlyPromptsUpToTheLimitAreInlineAndTheirRingIsShorter) {
  JobLimits limits = Limits();
  DecodeJob job = Job();
  job.max_tokens = 300;
  EXPECT_FALSE(IsInline(job, limits));
  const uint32_t with_prefill = WindowPagesOf(job, limits);
  limits.inline_prefill_tokens = 3;
  EXPECT_TRUE(IsInline(job, limits));
  EXPECT_LT(WindowPagesOf(job, limits), with_prefill);
  job.prompt.push_back(4);
  EXPECT_FALSE(IsInline(job, limits));
}

}  // namespace
}  // namespace baton
