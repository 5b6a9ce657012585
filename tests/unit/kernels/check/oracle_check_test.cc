#include "kernels/check/oracle_check.h"

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
    EXPECT_EQ(prompt.greedy_equal, 6);
    EXPECT_EQ(prompt.first_difference, -1);
  }
}

TEST_F(OracleCheck, FindsTheFirstDifferentToken) {
  TokenId& token = prompts_[1].float32.greedy[3];
  token = (token + 1) % 96;
  const OracleReport report = Check({.float32 = true});
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.prompts[1].first_difference, 3);
  EXPECT_EQ(report.prompts[1].gap, 0.125);
  EXPECT_TRUE(report.prompts[0].greedy_ok());
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
