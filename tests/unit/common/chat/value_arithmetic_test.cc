#include "common/chat/value_arithmetic.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ValueArithmeticTest, RoundsDownAsPython) {
  EXPECT_EQ(Print("[7 // 2, -7 // 2, 7 % -3, -7 % 3, -7.5 % 2, -7.5 // 2, 7 / 2, 6 / 3]"),
            "[3, -4, -2, 2, 0.5, -4.0, 3.5, 2.0]");
  EXPECT_EQ(Print("[2 ** 10, 2 ** -1, 2.0 ** 3, -(-3), +true]"), "[1024, 0.5, 8.0, 3, 1]");
}

TEST(ValueArithmeticTest, JoinsAndRepeats) {
  EXPECT_EQ(Print("('a' + 'b') ~ 'cd' * 2 ~ ([1] + [2]) ~ [0] * 2 ~ ((1,) + (2,))"),
            "abcdcd[1, 2][0, 0](1, 2)");
}

TEST(ValueArithmeticTest, RefusesMixedTypes) {
  for (const char* expression :
       {"'a' + 1", "1 + none", "[1] + (2,)", "1 / 0", "1.0 % 0", "-'a'", "x + 1"}) {
    EXPECT_NE(Print(expression).find("INVALID_ARGUMENT"), std::string::npos) << expression;
  }
}

}  // namespace
}  // namespace baton
