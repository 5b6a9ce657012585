#include "common/chat/expression_parser.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ExpressionParserOperandTest, ReadsLiterals) {
  EXPECT_EQ(Print("[1, 'a' 'b', {'k': (1,)}, none, ()]"), "[1, 'ab', {'k': (1,)}, None, ()]");
}

TEST(ExpressionParserOperandTest, ReadsSubscriptsAndSlices) {
  const std::string context = R"({"x": [1, 2, [3, 4]]})";
  EXPECT_EQ(Print("x[2][0] ~ x.2[-1]", context), "34");
  EXPECT_EQ(Print("x[:2] ~ x[::-2] ~ x[1:][0]", context), "[1, 2][[3, 4], 1]2");
}

TEST(ExpressionParserOperandTest, ReadsTestsWithAndWithoutParentheses) {
  EXPECT_EQ(Print("4 is divisibleby 2 and 4 is not divisibleby(3)"), "True");
  EXPECT_EQ(Print("x is defined or 1 is eq 1"), "True");
}

TEST(ExpressionParserOperandTest, RefusesWhatIsNotSupported) {
  EXPECT_EQ(Print("range(*x)"), "UNIMPLEMENTED: line 1: an argument with '*' is not supported");
  EXPECT_NE(Print("dict(a=1, a=2)").find("given twice"), std::string::npos);
}

}  // namespace
}  // namespace baton
