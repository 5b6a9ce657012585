#include "common/chat/global_functions.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(GlobalFunctionsTest, RangeCountsAsPython) {
  EXPECT_EQ(Print("range(3) | list ~ (range(5, 0, -2) | list)"), "[0, 1, 2][5, 3, 1]");
  EXPECT_EQ(Print("range(1, 9)[::2]"), "range(1, 9, 2)");
  EXPECT_EQ(Print("range(100000) | length"), "100000");
  EXPECT_NE(Print("range(100001)").find("RESOURCE_EXHAUSTED"), std::string::npos);
  EXPECT_NE(Print("range(0, 5, 0)").find("INVALID_ARGUMENT"), std::string::npos);
}

TEST(GlobalFunctionsTest, DictTakesPairsAndNames) {
  EXPECT_EQ(Print("dict([('a', 1)], b=2)"), "{'a': 1, 'b': 2}");
}

TEST(GlobalFunctionsTest, RaiseExceptionPassesTheMessageOn) {
  EXPECT_EQ(RenderText("\n\n{{ raise_exception('Roles must ' ~ 'alternate') }}"),
            "INVALID_ARGUMENT: Roles must alternate");
}

TEST(GlobalFunctionsTest, StrftimeNowFormats) {
  const std::string year = Print("strftime_now('%Y')");
  ASSERT_EQ(year.size(), 4u);
  EXPECT_GE(year, "2024");
  EXPECT_EQ(Print("strftime_now('%%x')"), "%x");
}

}  // namespace
}  // namespace baton
