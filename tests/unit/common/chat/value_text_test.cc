#include "common/chat/value_text.h"

#include <gtest/gtest.h>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ValueTextTest, QuotesAsPython) {
  EXPECT_EQ(QuotePythonString("a"), "'a'");
  EXPECT_EQ(QuotePythonString("it's"), "\"it's\"");
  EXPECT_EQ(QuotePythonString("'\""), "'\\'\"'");
  EXPECT_EQ(QuotePythonString("\n\t\\\x01é\u200b\U0001F642"), "'\\n\\t\\\\\\x01é\\u200b🙂'");
}

TEST(ValueTextTest, PrintsContainers) {
  EXPECT_EQ(Print("[1, 'a', none, true, 1.5, {'k': (1,)}, (), x]"),
            "[1, 'a', None, True, 1.5, {'k': (1,)}, (), Undefined]");
  EXPECT_EQ(Print("x ~ none ~ 1e20 ~ 'a'"), "None1e+20a");
}

}  // namespace
}  // namespace baton
