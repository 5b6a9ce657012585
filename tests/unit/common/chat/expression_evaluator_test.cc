#include "common/chat/expression_evaluator.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ExpressionEvaluatorTest, GivesTheDecidingOperandOfLogic) {
  EXPECT_EQ(Print("1 and 'x'"), "x");
  EXPECT_EQ(Print("0 or none"), "None");
  EXPECT_EQ(Print("not 1 or 'y'"), "y");
  EXPECT_EQ(Print("undefined_name and undefined_name.x"), "");
}

TEST(ExpressionEvaluatorTest, ChainsComparisons) {
  EXPECT_EQ(Print("1 < 2 < 3"), "True");
  EXPECT_EQ(Print("1 < 3 < 2"), "False");
  EXPECT_EQ(Print("3 > 2 == true"), "False");
}

TEST(ExpressionEvaluatorTest, ConcatenatesWhatItPrints) {
  EXPECT_EQ(Print("1 ~ none ~ 1.0 ~ 'x' ~ [true]"), "1None1.0x[True]");
}

TEST(ExpressionEvaluatorTest, NamesTheLineOfAnError) {
  const std::string text = RenderText("a\n\n{{ x.y }}");
  EXPECT_EQ(text, "INVALID_ARGUMENT: chat template, line 3: 'x' is undefined");
}

TEST(ExpressionEvaluatorTest, RefusesValuesNestedWithoutBound) {
  const std::string text = RenderText(
      "{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x] %}{% endfor %}");
  EXPECT_NE(text.find("RESOURCE_EXHAUSTED"), std::string::npos) << text;
}

TEST(ExpressionEvaluatorTest, CallsOnlyFunctions) {
  EXPECT_NE(Print("1(2)").find("cannot be called"), std::string::npos);
  EXPECT_NE(Print("nope()").find("'nope' is undefined"), std::string::npos);
}

}  // namespace
}  // namespace baton
