#include "common/chat/statement_evaluator.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(StatementEvaluatorTest, LoopsHaveTheirOwnScope) {
  EXPECT_EQ(
      RenderText("{% set x = 1 %}{% for i in [5] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}"),
      "51");
  EXPECT_EQ(RenderText("{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
}

TEST(StatementEvaluatorTest, LoopsFilterUnpackAndElse) {
  EXPECT_EQ(RenderText("{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}"),
            "123");
  EXPECT_EQ(RenderText("{% for x in [1, 2, 3] if x > 1 %}{{ loop.index }}{{ x }}{% endfor %}"),
            "1223");
  EXPECT_EQ(RenderText("{% for x in [] %}{% else %}none{% endfor %}"), "none");
  EXPECT_NE(RenderText("{% for a, b in [[1, 2, 3]] %}{% endfor %}").find("to unpack"),
            std::string::npos);
}

TEST(StatementEvaluatorTest, BreaksAndContinues) {
  EXPECT_EQ(RenderText("{% for x in 'abc' %}{% if x == 'b' %}{% continue %}{% endif %}{{ x }}"
                       "{% endfor %}"),
            "ac");
  EXPECT_EQ(RenderText("{% for x in 'abc' %}{% if x == 'b' %}{% break %}{% endif %}{{ x }}"
                       "{% endfor %}"),
            "a");
}

TEST(StatementEvaluatorTest, BlocksCaptureText) {
  EXPECT_EQ(RenderText("{% set x | upper %}a{{ 1 }}{% endset %}[{{ x }}]"), "[A1]");
  EXPECT_EQ(
      RenderText("{% filter upper %}a{% endfilter %}{% with b = 2 %}{{ b }}{% endwith %}{{ b }}"),
      "A2");
  EXPECT_EQ(RenderText("{% generation %}x{% set q = 1 %}{% endgeneration %}{{ q }}"), "x");
}

}  // namespace
}  // namespace baton
