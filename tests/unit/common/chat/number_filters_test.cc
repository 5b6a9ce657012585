#include "common/chat/filters.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(NumberFiltersTest, ConvertToIntegers) {
  EXPECT_EQ(Print("['42', ' 42.9 ', 'x', none, 2.9, -2.9, true] | map('int') | list"),
            "[42, 42, 0, 0, 2, -2, 1]");
  EXPECT_EQ(Print("'0x1f' | int(0, 16) ~ ('x' | int(5))"), "315");
}

TEST(NumberFiltersTest, ConvertToFloats) {
  EXPECT_EQ(Print("'1e3' | float ~ ' ' ~ ('x' | float(1.5)) ~ ' ' ~ (3 | float)"),
            "1000.0 1.5 3.0");
}

TEST(NumberFiltersTest, RoundHalvesToEven) {
  EXPECT_EQ(Print("2.5 | round ~ ' ' ~ (3.5 | round) ~ ' ' ~ (2.675 | round(2))"), "2.0 4.0 2.67");
  EXPECT_EQ(Print("1250 | round(-2) ~ ' ' ~ (42 | round) ~ ' ' ~ (2.31 | round(1, 'ceil'))"),
            "1200 42 2.4");
}

TEST(NumberFiltersTest, AddUp) {
  EXPECT_EQ(Print("[1, 2] | sum ~ ([{'a': 3}] | sum(attribute='a', start=1)) ~ (-5 | abs)"), "345");
  EXPECT_NE(Print("['a'] | sum").find("INVALID_ARGUMENT"), std::string::npos);
}

}  // namespace
}  // namespace baton
