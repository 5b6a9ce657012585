#include "common/chat/expression_lexer.h"

#include <gtest/gtest.h>
#include <string>

namespace baton {
namespace {

TEST(ExpressionLexerTest, ReadsNumbers) {
  EXPECT_TRUE(LexExpressionToken("1_000)", 1, false)->token.integer == 1000);
  EXPECT_TRUE(LexExpressionToken("0x1F", 1, false)->token.integer == 31);
  EXPECT_EQ(LexExpressionToken("1.5e-3x", 1, false)->token.floating, 1.5e-3);
  EXPECT_EQ(LexExpressionToken("1.5", 1, true)->token.kind, TokenKind::kInteger);
  EXPECT_EQ(LexExpressionToken("1.x", 1, false)->bytes, 1u);
}

TEST(ExpressionLexerTest, ResolvesEscapes) {
  const auto lexed = LexExpressionToken(R"('a\n\'\x41\u00e9\q\101' rest)", 1, false);
  ASSERT_TRUE(lexed.ok());
  EXPECT_EQ(lexed->token.text, "a\n'A\u00e9\\qA");
}

TEST(ExpressionLexerTest, RefusesWithTheLine) {
  EXPECT_EQ(LexExpressionToken("'open", 7, false).status().message(),
            "line 7: the string is not closed");
  EXPECT_FALSE(LexExpressionToken("'\\xZZ'", 1, false).ok());
  EXPECT_FALSE(LexExpressionToken("'\\ud800'", 1, false).ok());
  EXPECT_FALSE(LexExpressionToken("$", 1, false).ok());
}

TEST(ExpressionLexerTest, TracksBrackets) {
  std::string open;
  EXPECT_TRUE(TrackBrackets({.kind = TokenKind::kOperator, .text = "("}, &open).ok());
  EXPECT_FALSE(TrackBrackets({.kind = TokenKind::kOperator, .text = "]"}, &open).ok());
  EXPECT_TRUE(TrackBrackets({.kind = TokenKind::kOperator, .text = ")"}, &open).ok());
  EXPECT_TRUE(open.empty());
}

}  // namespace
}  // namespace baton
