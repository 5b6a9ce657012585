#include "common/chat/filters.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(SelectionFiltersTest, MapByFilterOrAttribute) {
  EXPECT_EQ(Print("['a', 'b'] | map('upper') | join"), "AB");
  EXPECT_EQ(Print("[{'a': 1}, {}] | map(attribute='a', default=0) | list"), "[1, 0]");
  EXPECT_NE(Print("[1] | map | list").find("INVALID_ARGUMENT"), std::string::npos);
}

TEST(SelectionFiltersTest, KeepByTest) {
  EXPECT_EQ(Print("[0, 1, 2] | select | list ~ ([0, 1, 2] | select('gt', 1) | list)"), "[1, 2][2]");
  EXPECT_EQ(Print("[1, 2, 3] | reject('odd') | list"), "[2]");
  EXPECT_EQ(Print("[{'r': 'u'}, {'r': 'a'}] | selectattr('r', '==', 'u') | list"), "[{'r': 'u'}]");
  EXPECT_EQ(Print("[{'r': 'u'}, {}] | rejectattr('r') | list"), "[{}]");
}

TEST(SelectionFiltersTest, AreSpentOnce) {
  EXPECT_EQ(RenderText("{% set g = [1, 2] | select %}{{ g | list }}{{ g | list }}"), "[1, 2][]");
}

}  // namespace
}  // namespace baton
