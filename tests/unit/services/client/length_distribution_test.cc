#include "services/client/length_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace baton {
namespace {

using testing::HasSubstr;

std::map<uint32_t, int> Draws(const std::string& text, int count) {
  const auto distribution = LengthDistribution::Parse(text, 100000);
  EXPECT_TRUE(distribution.ok()) << distribution.status();
  std::mt19937_64 random(5);
  std::map<uint32_t, int> draws;
  for (int i = 0; i < count; ++i) ++draws[distribution->Draw(random)];
  return draws;
}

TEST(LengthDistributionTest, OneNumberIsThatNumberAlways) {
  EXPECT_THAT(Draws("512", 100), testing::ElementsAre(testing::Pair(512, 100)));
}

TEST(LengthDistributionTest, UniformReachesBothEndsAndNothingBeyond) {
  const auto draws = Draws("uniform:3:6", 4000);
  ASSERT_EQ(draws.size(), 4u);
  EXPECT_EQ(draws.begin()->first, 3u);
  for (const auto& [length, count] : draws) EXPECT_NEAR(count, 1000, 150) << length;
}

TEST(LengthDistributionTest, LognormalHasItsMedianAndIsCut) {
  const auto draws = Draws("lognormal:1000:1:8000", 4000);
  int below = 0;
  for (const auto& [length, count] : draws) below += length < 1000 ? count : 0;
  EXPECT_NEAR(below, 2000, 150);
  EXPECT_EQ(draws.rbegin()->first, 8000u);
  // One standard deviation up: 84 % lie below 1000 e.
  int below_e = 0;
  for (const auto& [length, count] : draws) below_e += length < 2718 ? count : 0;
  EXPECT_NEAR(below_e, 0.841 * 4000, 120);
}

TEST(LengthDistributionTest, AMixtureFollowsItsWeights) {
  const auto draws = Draws("10*3+20", 4000);
  EXPECT_NEAR(draws.at(10), 3000, 150);
  EXPECT_NEAR(draws.at(20), 1000, 150);
  EXPECT_EQ(LengthDistribution::Parse("10*3+uniform:20:300", 1000)->longest(), 300u);
}

TEST(LengthDistributionTest, RefusesWhatItCannotRead) {
  for (const char* text : {"", "0", "-1", "x", "1001", "uniform:5", "uniform:6:5", "uniform:1:2:3",
                           "lognormal:0:1:10", "lognormal:100:1:50", "lognormal:10:9:50", "5*",
                           "5*0", "5*-1", "5+", "5*1*2", "normal:1:2"}) {
    const auto parsed = LengthDistribution::Parse(text, 1000);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.status().message(), HasSubstr("from 1 to 1000"));
  }
}

}  // namespace
}  // namespace baton
