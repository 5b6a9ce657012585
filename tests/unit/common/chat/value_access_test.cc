#include "common/chat/value_access.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ValueAccessTest, MethodsComeBeforeKeysByDot) {
  const std::string context = R"({"d": {"items": 5, "x": 1}})";
  EXPECT_EQ(Print("d['items'] ~ d.x ~ (d.items() | list | length)", context), "512");
}

TEST(ValueAccessTest, MissingIsUndefinedOnlyOnce) {
  EXPECT_EQ(Print("d.nope ~ [1][5] ~ none.x", R"({"d": {}})"), "");
  EXPECT_NE(Print("d.nope.more", R"({"d": {}})").find("has no attribute 'nope'"),
            std::string::npos);
}

TEST(ValueAccessTest, SlicesLikePython) {
  EXPECT_EQ(Print("'aé🙂d'[1:3] ~ 'abc'[::-1] ~ 'abc'[-2:] ~ 'abc'[5:] ~ 'abc'[2:0:-1]"),
            "é🙂cbabccb");
  EXPECT_EQ(Print("[1, 2, 3][:-1] ~ (1, 2, 3)[::2]"), "[1, 2](1, 3)");
  EXPECT_NE(Print("[1][::0]").find("step"), std::string::npos);
  EXPECT_NE(Print("x[1:]", R"({"x": null})").find("cannot be sliced"), std::string::npos);
}

}  // namespace
}  // namespace baton
