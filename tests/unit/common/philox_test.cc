#include "common/philox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using testing::ElementsAre;

// Known answers published with Random123 (kat_vectors, philox4x32, 10 rounds).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  constexpr uint32_t kOnes = 0xffffffffu;
  EXPECT_THAT(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      Philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Philox, NoiseIsFiniteAtBothEnds) {
  EXPECT_GT(UnitInterval(0), 0.0f);
  EXPECT_LT(UnitInterval(0xffffffffu), 1.0f);
  EXPECT_TRUE(std::isfinite(GumbelFromUniform(UnitInterval(0))));
  EXPECT_LT(GumbelFromUniform(UnitInterval(0xffffffffu)), kMaxGumbel);
}

TEST(Philox, NoiseDependsOnSeedPositionAndToken) {
  const float noise = SamplingNoise(1, 2, 3);
  EXPECT_EQ(noise, SamplingNoise(1, 2, 3));
  EXPECT_NE(noise, SamplingNoise(2, 2, 3));
  EXPECT_NE(noise, SamplingNoise(1ull << 32 | 1, 2, 3));
  EXPECT_NE(noise, SamplingNoise(1, 3, 3));
  EXPECT_NE(noise, SamplingNoise(1, 2, 4));
  EXPECT_EQ(SamplingNoise(5, 6, 7), GumbelFromUniform(UnitInterval(SamplingWords(5, 6, 1)[3])));
}

TEST(Philox, NoiseHasTheMeanOfAGumbel) {
  double sum = 0;
  constexpr int kDraws = 40000;
  for (int token = 0; token < kDraws; ++token) sum += SamplingNoise(9, 1, token);
  EXPECT_NEAR(sum / kDraws, 0.5772, 5 * 1.2825 / 200);  // Euler's constant; sigma / sqrt(n).
}

}  // namespace
}  // namespace baton
