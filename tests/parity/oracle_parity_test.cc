// The CPU backend against what Hugging Face says, for North Nano and both random checkpoints.
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend_factory.h"
#include "kernels/check/oracle.h"
#include "kernels/check/oracle_check.h"
#include "kernels/models/checkpoint.h"

namespace baton {
namespace {

const std::string kSource = BATON_SOURCE_DIR;

struct ParityCase {
  std::string name;
  std::string model_dir;
  std::string oracle;
};

class OracleParity : public testing::TestWithParam<ParityCase> {
 protected:
  OracleReport Run(const std::string& dtype, const std::string& instruction_set = "auto",
                   int chunk_tokens = 512) {
    auto checkpoint = Checkpoint::Open(kSource + "/" + GetParam().model_dir);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    auto prompts = LoadOracle(kSource + "/" + GetParam().oracle);
    EXPECT_TRUE(prompts.ok()) << prompts.status();
    auto backend = MakeBackend(
        **checkpoint,
        {.kind = "cpu", .dtype = dtype, .threads = 2, .instruction_set = instruction_set});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto report = CheckAgainstOracle(**backend, *prompts,
                                     {.float32 = dtype == "float32", .chunk_tokens = chunk_tokens});
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->prompts.size(), prompts->size());
    return *report;
  }

  static void Print(const OracleReport& report) {
    for (const OraclePromptResult& prompt : report.prompts) {
      std::printf("  %4d tokens: relative L2 %.3e (reference bfloat16 %.3e), greedy %d/%d equal",
                  prompt.prompt_tokens, prompt.relative_l2, prompt.reference_relative_l2,
                  prompt.greedy_equal, prompt.greedy_count);
      if (prompt.first_difference >= 0) {
        std::printf(", gap there %.4f (allowed %.4f)", prompt.gap, prompt.allowed_gap);
      }
      std::printf("\n");
    }
    std::printf("  median ratio to the reference's bfloat16 distance: %.3f\n", report.median_ratio);
  }
};

TEST_P(OracleParity, Float32AgreesInEveryGreedyTokenAndInLogits) {
  const OracleReport report = Run("float32");
  Print(report);
  for (const OraclePromptResult& prompt : report.prompts) {
    EXPECT_EQ(prompt.greedy_equal, prompt.greedy_count) << "gap there " << prompt.gap;
    EXPECT_LE(prompt.relative_l2, kFloat32Limit);
  }
  EXPECT_TRUE(report.passed);
}

TEST_P(OracleParity, PortableLoopsAgreeToo) {
  const OracleReport report = Run("float32", "portable", 7);
  EXPECT_TRUE(report.passed);
}

TEST_P(OracleParity, Bfloat16IsAsCloseAsTheReferencesOwn) {
  const OracleReport report = Run("bfloat16");
  Print(report);
  EXPECT_GT(report.median_ratio, 0);
  EXPECT_LE(report.median_ratio, kBfloat16Ratio);
  for (const OraclePromptResult& prompt : report.prompts) {
    EXPECT_TRUE(prompt.greedy_ok()) << "gap " << prompt.gap << " > " << prompt.allowed_gap;
  }
  EXPECT_TRUE(report.passed);
}

INSTANTIATE_TEST_SUITE_P(
    Models, OracleParity,
    testing::Values(
        ParityCase{"NorthNano", "deploy/models/north-nano", "tests/fixtures/oracle/north-nano"},
        ParityCase{"NorthLike", "tests/fixtures/oracle/cohere2moe_north_like",
                   "tests/fixtures/oracle/cohere2moe_north_like/expected"},
        ParityCase{"LnSoftmaxAverage", "tests/fixtures/oracle/cohere2moe_ln_softmax_avg",
                   "tests/fixtures/oracle/cohere2moe_ln_softmax_avg/expected"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton
