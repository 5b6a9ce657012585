#include "common/chat/value_tests.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ValueTestsTest, TellTypesApart) {
  EXPECT_EQ(Print("[1 is integer, true is integer, true is number, 1.0 is float, 'a' is string]"),
            "[True, False, True, True, True]");
  EXPECT_EQ(Print("[{} is mapping, [] is mapping, 'a' is sequence, {} is iterable, 1 is iterable]"),
            "[True, False, True, True, False]");
  EXPECT_EQ(Print("[x is defined, x is undefined, none is none, no is false]", R"({"no": false})"),
            "[False, True, True, True]");
}

TEST(ValueTestsTest, Compare) {
  EXPECT_EQ(Print("[3 is odd, 3 is even, 9 is divisibleby 3, 1 is eq 1, 1 is lt 2, 1 is in [1]]"),
            "[True, False, True, True, True, True]");
  EXPECT_NE(Print("1 is divisibleby").find("wants 1"), std::string::npos);
  EXPECT_NE(Print("'a' is odd").find("INVALID_ARGUMENT"), std::string::npos);
}

TEST(ValueTestsTest, KnowTheirNames) {
  EXPECT_TRUE(IsValueTest("equalto"));
  EXPECT_FALSE(IsValueTest("foo"));
}

}  // namespace
}  // namespace baton
