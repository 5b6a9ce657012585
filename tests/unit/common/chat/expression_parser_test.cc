#include "common/chat/expression_parser.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ExpressionParserTest, BindsAsJinjaDoes) {
  EXPECT_EQ(Print("1 + 2 * 3"), "7");
  EXPECT_EQ(Print("-2 ** 2"), "4");
  EXPECT_EQ(Print("2 ** 3 ** 2"), "64");
  EXPECT_EQ(Print("'1' + 2 ~ 3"), "123");
  EXPECT_EQ(Print("'a' ~ 'b' | upper"), "aB");
  EXPECT_EQ(Print("not 1 == 2"), "True");
  EXPECT_EQ(Print("1 if false else 2 if false else 3"), "3");
}

TEST(ExpressionParserTest, BoundsTheDepthOfTrees) {
  std::string parentheses = std::string(500, '(') + "1" + std::string(500, ')');
  EXPECT_NE(Print(parentheses).find("UNIMPLEMENTED"), std::string::npos);
  std::string sum = "1";
  for (int i = 0; i < 1000; ++i) sum += " + 1";
  EXPECT_NE(Print(sum).find("UNIMPLEMENTED"), std::string::npos);
}

TEST(ExpressionParserTest, NamesWhatItWanted) {
  EXPECT_EQ(Print("1 +"), "INVALID_ARGUMENT: line 1: wanted an expression, found '}}'");
}

}  // namespace
}  // namespace baton
