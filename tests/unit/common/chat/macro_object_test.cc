#include "common/chat/macro_object.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(MacroObjectTest, BindsArgumentsAndDefaults) {
  EXPECT_EQ(RenderText("{% macro m(a, b=a) %}{{ a }}-{{ b }};{% endmacro %}"
                       "{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}"),
            "1-1;1-2;4-3;-;");
  EXPECT_NE(RenderText("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}").find("at most 1"),
            std::string::npos);
  EXPECT_NE(RenderText("{% macro m(a) %}{% endmacro %}{{ m(z=2) }}").find("'z'"),
            std::string::npos);
}

TEST(MacroObjectTest, SeesTheScopeOfItsDefinition) {
  EXPECT_EQ(RenderText("{% macro m() %}{{ v }}{{ x }}{% endmacro %}{% set v = 1 %}"
                       "{% for x in [7] %}{{ m() }}{% endfor %}{% set v = 2 %}{{ m() }}"),
            "12");
}

TEST(MacroObjectTest, CallsItsCaller) {
  EXPECT_EQ(RenderText("{% macro m() %}[{{ caller(5) }}]{% endmacro %}"
                       "{% call(x) m() %}{{ x }}{% endcall %}"),
            "[5]");
}

TEST(MacroObjectTest, RecursionIsBounded) {
  const std::string text = RenderText("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  EXPECT_NE(text.find("RESOURCE_EXHAUSTED"), std::string::npos) << text;
}

TEST(MacroObjectTest, CollectsExtraArguments) {
  EXPECT_EQ(RenderText("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, a=2) }}"),
            "(1,){'a': 2}");
}

}  // namespace
}  // namespace baton
