#include "kernels/cpu/expert_choice.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

std::vector<ExpertChoice> Choose(const ModelConfig& config, const std::vector<float>& logits) {
  const SyntheticModel synthetic(config);
  const CpuModel model(synthetic.checkpoint(), CpuMode::kFloat32, PortableInnerLoops());
  std::vector<ExpertChoice> choices;
  ChooseExperts(model, logits.data(), choices);
  return choices;
}

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

TEST(ExpertChoice, TakesTheBestByAscendingId) {
  const auto choices = Choose(SyntheticConfig(), {-1.0f, 2.0f, 0.5f, 3.0f});
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].expert, 1);
  EXPECT_EQ(choices[1].expert, 3);
  EXPECT_NEAR(choices[0].weight, Logistic(2), 1e-6);
  EXPECT_NEAR(choices[1].weight, Logistic(3), 1e-6);
}

TEST(ExpertChoice, BreaksTiesToTheLowestId) {
  const auto choices = Choose(SyntheticConfig(), {0.5f, 1.0f, 1.0f, 1.0f});
  EXPECT_EQ(choices[0].expert, 1);
  EXPECT_EQ(choices[1].expert, 2);
}

TEST(ExpertChoice, NormalizesSigmoidsWhereTheConfigSaysSo) {
  ModelConfig config = SyntheticConfig();
  config.norm_topk = true;
  const auto choices = Choose(config, {-1.0f, 2.0f, 0.5f, 3.0f});
  EXPECT_NEAR(choices[0].weight, Logistic(2) / (Logistic(2) + Logistic(3)), 1e-6);
  EXPECT_NEAR(choices[0].weight + choices[1].weight, 1.0, 1e-6);
}

TEST(ExpertChoice, TakesSoftmaxOverTheChosenOnly) {
  const auto choices = Choose(SharedExpertConfig(), {-1.0f, 2.0f, 0.5f, 3.0f});
  EXPECT_NEAR(choices[0].weight, 1 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(choices[0].weight + choices[1].weight, 1.0, 1e-6);
}

}  // namespace
}  // namespace baton
