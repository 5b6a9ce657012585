#include "kernels/cpu/cpu_model.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

std::vector<float> RandomVector(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3f, 1.0f);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

void ExpectNorm(const ModelConfig& config, bool centred) {
  const SyntheticModel synthetic(config);
  const CpuModel model(synthetic.checkpoint(), CpuMode::kFloat32, PortableInnerLoops());
  const std::vector<float> x = RandomVector(config.hidden, 3);
  std::vector<float> normed(config.hidden);
  model.Normalize(1, x.data(), normed.data());
  double mean = 0;
  for (float value : x) mean += centred ? value / double{1.0 * config.hidden} : 0.0;
  double square = 0;
  for (float value : x) square += (value - mean) * (value - mean) / config.hidden;
  for (int i = 0; i < config.hidden; ++i) {
    const double wanted =
        model.norm_weights(1)[i] * (x[i] - mean) / std::sqrt(square + config.norm_epsilon);
    EXPECT_NEAR(normed[i], wanted, 1e-5);
  }
}

TEST(CpuModel, NormalizesByRootMeanSquare) { ExpectNorm(SyntheticConfig(), false); }

TEST(CpuModel, NormalizesAroundTheMean) { ExpectNorm(SharedExpertConfig(), true); }

TEST(CpuModel, RoundsInBfloat16ModeOnly) {
  const SyntheticModel synthetic;
  const CpuModel exact(synthetic.checkpoint(), CpuMode::kFloat32, PortableInnerLoops());
  const CpuModel rounded(synthetic.checkpoint(), CpuMode::kBfloat16, PortableInnerLoops());
  EXPECT_EQ(exact.Round(1.001f), 1.001f);
  EXPECT_EQ(rounded.Round(1.001f), RoundToBf16(1.001f));
  std::vector<float> cosines(4), sines(4);
  rounded.Rotations(100, cosines.data(), sines.data());
  EXPECT_EQ(cosines[0], RoundToBf16(std::cos(100.0f)));
  exact.Rotations(100, cosines.data(), sines.data());
  EXPECT_NEAR(sines[1], std::sin(100.0 * std::pow(50000.0, -2.0 / 8)), 1e-5);
}

TEST(CpuModel, MultipliesAPartOfAMatrixInEveryStoredType) {
  std::vector<float> wanted;
  for (DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const SyntheticModel synthetic(SyntheticConfig(), dtype);
    const CpuModel model(synthetic.checkpoint(), CpuMode::kFloat32, PortableInnerLoops());
    const std::vector<float> x = RandomVector(32, 5);
    std::vector<float> results(3);
    const std::vector<const float*> inputs = {x.data()};
    const std::vector<float*> outputs = {results.data()};
    model.Multiply({model.weights().layers[0].q, 7, 3, inputs, outputs});
    if (wanted.empty()) {
      const auto* q = static_cast<const float*>(model.weights().layers[0].q.data);
      for (int out = 0; out < 3; ++out) {
        double sum = 0;
        for (int i = 0; i < 32; ++i) sum += double{q[(7 + out) * 32 + i]} * x[i];
        EXPECT_NEAR(results[out], sum, 1e-5);
      }
      wanted = results;
    }
    EXPECT_EQ(results, wanted) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace baton
