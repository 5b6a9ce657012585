#include "common/chat/percent_format.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(PercentFormatTest, FormatsAsPython) {
  EXPECT_EQ(Print("'%s is %d%%' % ('x', 3)"), "x is 3%");
  EXPECT_EQ(Print("'%05.1f|%-4s|%+d|%x' % (2.25, 'ab', 5, 255)"), "002.2|ab  |+5|ff");
  EXPECT_EQ(Print("'%(a)s' % {'a': 1}"), "1");
  EXPECT_EQ(Print("'%r' % ('a',)"), "'a'");
}

TEST(PercentFormatTest, RefusesWhatDoesNotFit) {
  for (const char* expression :
       {"'%s %s' % 'x'", "'%d' % 'a'", "'x' % 1", "'%' % 1", "'%y' % 1", "'%999999999d' % 1"}) {
    EXPECT_NE(Print(expression).find("INVALID_ARGUMENT"), std::string::npos) << expression;
  }
}

}  // namespace
}  // namespace baton
