#include "kernels/check/oracle_check.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/check/sequence_runner.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

// An oracle that a backend made of itself.
std::vector<OraclePrompt> OwnOracle(Backend& backend) {
  auto runner = SequenceRunner::Make(backend, {.max_tokens = 40});
  BATON_CHECK(runner.ok());
  std::vector<OraclePrompt> prompts;
  for (const std::vector<TokenId>& tokens : {std::vector<TokenId>{4}, {8, 15, 16, 23}}) {
    auto generated = (*runner)->Generate(tokens, 6);
    BATON_CHECK(generated.ok());
    OraclePrompt prompt{.tokens = tokens};
    for (const SampledToken& token : generated->tokens)
      prompt.float32.greedy.push_back(token.token);
    prompt.float32.top2_gap.assign(6, 0.125f);
    prompt.float32.last_logits = generated->prompt_logits;
    prompts.push_back(prompt);
  }
  return prompts;
}

class OracleCheck : public testing::Test {
 protected:
  OracleCheck()
      : backend_(synthetic_.MakeBackend({.mode = CpuMode::kFloat32, .threads = 1})),
        prompts_(OwnOracle(*backend_)) {}

  OracleReport Check(const OracleCheckOptions& options) {
    auto report = CheckAgainstOracle(*backend_, prompts_, options);
    BATON_CHECK(report.ok());
    return *report;
  }

  SyntheticModel synthetic_;
  std::unique_ptr<CpuBackend> backend_;
  std::vector<OraclePrompt> prompts_;
};

TEST_F(OracleCheck, PassesWhatAgrees) {
  const OracleReport report = Check({.float32 = true});
  EXPECT_TRUE(report.passed);
  for (const OraclePromptResult& prompt : report.prompts) {
    EXPECT_EQ(prompt.relative_l2, 0);
    EXPECT_EQ(prompt.greedy_equal(), 6);
    EXPECT_TRUE(prompt.differences.empty());
  }
}

TEST_F(OracleCheck, FindsADifferentToken) {
  TokenId& token = prompts_[1].float32.greedy.back();
  token = (token + 1) % 96;
  const OracleReport report = Check({.float32 = true});
  EXPECT_FALSE(report.passed);
  ASSERT_EQ(report.prompts[1].differences.size(), 1u);
  EXPECT_EQ(report.prompts[1].differences[0].step, 5);
  EXPECT_EQ(report.prompts[1].differences[0].gap, 0.125);
  EXPECT_EQ(report.prompts[1].greedy_equal(), 5);
  EXPECT_TRUE(report.prompts[0].greedy_ok());
}

TEST_F(OracleCheck, GoesOnBehindTheReferencesTokenAfterADifference) {
  // What the engine says behind a token that it would not have chosen itself.
  OraclePrompt& prompt = prompts_[1];
  const TokenId forced = (prompt.float32.greedy[1] + 1) % 96;
  std::vector<TokenId> prefix = prompt.tokens;
  prefix.insert(prefix.end(), {prompt.float32.greedy[0], forced});
  auto runner = SequenceRunner::Make(*backend_, {.max_tokens = 40});
  const auto behind = (*runner)->Generate(prefix, 4);
  ASSERT_TRUE(behind.ok()) << behind.status();
  prompt.float32.greedy[1] = forced;
  for (size_t i = 0; i < 4; ++i) prompt.float32.greedy[2 + i] = behind->tokens[i].token;
  const OracleReport report = Check({.float32 = true});
  ASSERT_EQ(report.prompts[1].differences.size(), 1u);
  EXPECT_EQ(report.prompts[1].differences[0].step, 1);
}

TEST_F(OracleCheck, AllowsInBfloat16WhatTheErrorBridgesOrTheReferenceDoesItself) {
  for (OraclePrompt& prompt : prompts_) {
    prompt.bfloat16 = prompt.float32;
    prompt.bfloat16.last_logits[0] += 0.1f;
  }
  OraclePrompt& prompt = prompts_[0];
  TokenId& token = prompt.float32.greedy[5];
  const TokenId ours = token;
  token = (token + 1) % 96;
  prompt.bfloat16.greedy[5] = token;
  OracleReport report = Check({});
  EXPECT_FALSE(report.prompts[0].greedy_ok()) << "0.125 is more than 0.1";
  EXPECT_FALSE(report.passed);
  prompt.float32.top2_gap[5] = 0.0625f;
  report = Check({});
  EXPECT_TRUE(report.prompts[0].greedy_ok());
  prompt.float32.top2_gap[5] = 0.125f;
  prompt.bfloat16.greedy[5] = ours;
  report = Check({});
  EXPECT_TRUE(report.prompts[0].greedy_ok());
  EXPECT_FALSE(Check({.float32 = true}).passed);
}

// The logits behind a padding token alone, whose embedding Hugging Face initialises with zeros.
TEST(RelativeL2, OfNothingFromNothingIsZero) {
  EXPECT_EQ(RelativeL2({0, -0.0f}, {0, 0}), 0);
  EXPECT_EQ(RelativeL2({}, {}), 0);
  EXPECT_EQ(RelativeL2({0, 1}, {0, 0}), INFINITY);
  EXPECT_TRUE(std::isnan(RelativeL2({NAN}, {0})));
}

TEST_F(OracleCheck, LeavesARatioToNothingOut) {
  for (OraclePrompt& prompt : prompts_) {
    prompt.bfloat16.last_logits = prompt.float32.last_logits;
    for (float& logit : prompt.bfloat16.last_logits) logit *= 1.01f;
  }
  EXPECT_EQ(Check({}).compared_prompts, 2);
  for (float& logit : prompts_[0].float32.last_logits) logit = 0;
  const OracleReport report = Check({});
  EXPECT_EQ(report.median_ratio, 0) << "of the other prompt";
  EXPECT_EQ(report.compared_prompts, 1);
}

TEST_F(OracleCheck, ADistanceThatIsNoNumberIsTooFar) {
  for (OraclePrompt& prompt : prompts_) {
    prompt.bfloat16.last_logits = prompt.float32.last_logits;
    for (float& logit : prompt.bfloat16.last_logits) logit *= 1.01f;
  }
  EXPECT_TRUE(Check({}).passed);
  for (OraclePrompt& prompt : prompts_) prompt.bfloat16.last_logits[0] = NAN;
  EXPECT_FALSE(Check({}).passed);
  for (OraclePrompt& prompt : prompts_) prompt.float32.last_logits[0] = NAN;
  EXPECT_FALSE(Check({}).passed);
}

TEST_F(OracleCheck, NamesTheConfigsKeyWhenPromptsAreTooLong) {
  prompts_[1].tokens.resize(5000, 1);
  const auto report = CheckAgainstOracle(*backend_, prompts_, {});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(report.status().message()),
              testing::AllOf(testing::HasSubstr("max_position_embeddings"),
                             testing::HasSubstr("found 5006")));
}

TEST_F(OracleCheck, RefusesLogitsThatAreOff) {
  for (float& logit : prompts_[0].float32.last_logits) logit *= 1.01f;
  const OracleReport report = Check({.float32 = true});
  EXPECT_FALSE(report.passed);
  EXPECT_NEAR(report.prompts[0].relative_l2, 0.01 / 1.01, 1e-4);
}

TEST_F(OracleCheck, JudgesBfloat16ByTheReferencesOwnDistance) {
  for (OraclePrompt& prompt : prompts_) {
    prompt.bfloat16.last_logits = prompt.float32.last_logits;
    for (float& logit : prompt.bfloat16.last_logits) logit *= 1.02f;
    for (float& logit : prompt.float32.last_logits) logit *= 1.01f;
  }
  // Our distance is 0.01 / 1.01, the reference's 0.01 / 1.01 too.
  OracleReport report = Check({});
  EXPECT_NEAR(report.median_ratio, 1.0, 0.02);
  EXPECT_TRUE(report.passed);
  for (OraclePrompt& prompt : prompts_) {
    for (float& logit : prompt.float32.last_logits) logit *= 1.004f;
  }
  report = Check({});
  EXPECT_GT(report.median_ratio, kBfloat16Ratio);
  EXPECT_FALSE(report.passed);
}

}  // namespace
}  // namespace baton
