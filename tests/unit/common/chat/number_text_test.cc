#include "common/chat/number_text.h"

#include <gtest/gtest.h>
#include <cmath>
#include <string>

namespace baton {
namespace {

TEST(NumberTextTest, WritesFloatsAsPython) {
  EXPECT_EQ(FloatText(1), "1.0");
  EXPECT_EQ(FloatText(0.1), "0.1");
  EXPECT_EQ(FloatText(-0.0), "-0.0");
  EXPECT_EQ(FloatText(1e15), "1000000000000000.0");
  EXPECT_EQ(FloatText(1e16), "1e+16");
  EXPECT_EQ(FloatText(1.5e-5), "1.5e-05");
  EXPECT_EQ(FloatText(0.0001), "0.0001");
  EXPECT_EQ(FloatText(1e300), "1e+300");
  EXPECT_EQ(FloatText(123.25), "123.25");
}

TEST(NumberTextTest, WritesWideIntegers) {
  EXPECT_EQ(IntText(TemplateInt{1} << 100), "1267650600228229401496703205376");
  EXPECT_EQ(IntText(-7), "-7");
  EXPECT_EQ(IntText(0), "0");
}

TEST(NumberTextTest, ReadsIntegersAsPython) {
  EXPECT_TRUE(*ParsePythonInt(" -1_0 ", 10) == -10);
  EXPECT_TRUE(*ParsePythonInt("0b11", 0) == 3);
  EXPECT_FALSE(ParsePythonInt("1__0", 10).has_value());
  EXPECT_FALSE(ParsePythonInt("", 10).has_value());
  EXPECT_FALSE(ParsePythonInt("9", 8).has_value());
  EXPECT_FALSE(ParsePythonInt(std::string(60, '9'), 10).has_value());
}

TEST(NumberTextTest, ReadsFloatsAsPython) {
  EXPECT_EQ(*ParsePythonFloat(" 1_0.5e1 "), 105.0);
  EXPECT_EQ(*ParsePythonFloat("-Infinity"), -HUGE_VAL);
  EXPECT_FALSE(ParsePythonFloat("1x").has_value());
  EXPECT_FALSE(ParsePythonFloat("0x10").has_value());
  EXPECT_FALSE(TruncateToInt(HUGE_VAL).has_value());
}

}  // namespace
}  // namespace baton
