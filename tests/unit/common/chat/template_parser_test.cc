#include "common/chat/template_parser.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(TemplateParserTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(RenderText("\n{% nope %}"), "INVALID_ARGUMENT: line 2: unknown tag 'nope'");
  EXPECT_EQ(RenderText("{% if x %}\n"),
            "INVALID_ARGUMENT: line 1: wanted {% endif %}, found the end of the template");
  EXPECT_EQ(RenderText("{% break %}"),
            "INVALID_ARGUMENT: line 1: 'break' stands outside of a loop");
  EXPECT_EQ(RenderText("{% include 'x' %}"),
            "UNIMPLEMENTED: line 1: tag 'include' is not supported");
}

TEST(TemplateParserTest, RefusesWhatCannotBeAssigned) {
  EXPECT_FALSE(RenderTemplate("{% set true = 1 %}").ok());
  EXPECT_FALSE(RenderTemplate("{% set 1 = 1 %}").ok());
  EXPECT_FALSE(RenderTemplate("{% for loop in [] %}{% endfor %}").ok());
  EXPECT_FALSE(RenderTemplate("{% macro m(a, a) %}{% endmacro %}").ok());
  EXPECT_FALSE(RenderTemplate("{% macro m(a=1, b) %}{% endmacro %}").ok());
}

TEST(TemplateParserTest, BreakDoesNotLeaveAMacro) {
  EXPECT_FALSE(
      RenderTemplate("{% for x in [] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}").ok());
}

TEST(TemplateParserTest, BoundsTheNestingOfBlocks) {
  std::string source;
  for (int i = 0; i < 100; ++i) source += "{% if true %}";
  for (int i = 0; i < 100; ++i) source += "{% endif %}";
  EXPECT_EQ(RenderTemplate(source).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace baton
