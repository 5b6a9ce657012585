#include "common/chat/template_lexer.h"

#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace baton {
namespace {

std::string Texts(std::string_view source) {
  const auto tokens = LexTemplate(source);
  if (!tokens.ok()) return std::string(tokens.status().message());
  std::string text;
  for (const TemplateToken& token : *tokens) {
    if (token.kind == TokenKind::kText) text += token.text;
    if (token.kind == TokenKind::kBlockBegin) text += "<";
    if (token.kind == TokenKind::kBlockEnd) text += ">";
  }
  return text;
}

TEST(TemplateLexerTest, TrimsAroundBlocks) {
  EXPECT_EQ(Texts("a\n  {% x %}\nb"), "a\n<>b");
  EXPECT_EQ(Texts("a {% x %} \nb"), "a <> \nb");
  EXPECT_EQ(Texts("a \n{%- x -%} \n b"), "a<>b");
  EXPECT_EQ(Texts("a\n  {%+ x +%}\nb"), "a\n  <>\nb");
  EXPECT_EQ(Texts("a\n  {# c #}\nb"), "a\nb");
}

TEST(TemplateLexerTest, KeepsSpaceAroundVariables) {
  EXPECT_EQ(Texts(" {{ x }}\n b"), " \n b");
  EXPECT_EQ(Texts("a {{- x -}} b"), "ab");
}

TEST(TemplateLexerTest, KeepsRawText) {
  EXPECT_EQ(Texts("{% raw %}{{ x }}{% y %}{% endraw %}"), "{{ x }}{% y %}");
  EXPECT_EQ(Texts("{% raw %}x"), "line 1: the raw block is not closed by {% endraw %}");
}

TEST(TemplateLexerTest, DropsOneNewlineAtTheEnd) { EXPECT_EQ(Texts("a\r\nb\rc\n\n"), "a\nb\nc\n"); }

TEST(TemplateLexerTest, CountsLines) {
  const auto tokens = LexTemplate("a\n\n{{\n x }}");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*tokens)[1].line, 3);
  EXPECT_EQ((*tokens)[2].line, 4);
  EXPECT_EQ(Texts("\n{{ x"), "line 2: the tag is not closed by }}");
}

TEST(TemplateLexerTest, BracesInsideBracketsCloseDicts) {
  EXPECT_TRUE(LexTemplate("{{ {'a': {'b': 1}}}}").ok());
}

}  // namespace
}  // namespace baton
