#include "common/chat/filters.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(SequenceFiltersTest, TakeEnds) {
  EXPECT_EQ(Print("[1, 2] | first ~ ([1, 2] | last) ~ ('é🙂' | last) ~ ([] | first)"), "12🙂");
  EXPECT_EQ(Print("'é🙂' | length ~ ('é🙂' | reverse)"), "2🙂é");
}

TEST(SequenceFiltersTest, SortStablyWithoutCase) {
  EXPECT_EQ(Print("['b', 'A', 'a'] | sort"), "['A', 'a', 'b']");
  EXPECT_EQ(Print("['b', 'A', 'a'] | sort(true, true)"), "['b', 'a', 'A']");
  EXPECT_EQ(
      Print("[{'n': 2, 'k': 1}, {'n': 1, 'k': 1}] | sort(attribute='k,n') | map(attribute='n')"
            " | list"),
      "[1, 2]");
  EXPECT_NE(Print("[1, 'a'] | sort").find("no order"), std::string::npos);
}

TEST(SequenceFiltersTest, HandleDicts) {
  EXPECT_EQ(Print("{'b': 1, 'A': 2} | dictsort"), "[('A', 2), ('b', 1)]");
  EXPECT_EQ(Print("{'b': 1, 'A': 2} | dictsort(by='value', reverse=true)"), "[('A', 2), ('b', 1)]");
  EXPECT_EQ(Print("{'b': 1} | items | list"), "[('b', 1)]");
}

TEST(SequenceFiltersTest, PickAndGroup) {
  EXPECT_EQ(Print("['a', 'A', 'b'] | unique | list"), "['a', 'b']");
  EXPECT_EQ(Print("[3, 1, 2] | min ~ ([3, 1, 2] | max)"), "13");
  EXPECT_EQ(Print("[1, 2, 3] | batch(2, 0) | list"), "[[1, 2], [3, 0]]");
  EXPECT_EQ(Print("'' | default('d') ~ ('' | default('d', true)) ~ (x | d('u'))"), "du");
}

}  // namespace
}  // namespace baton
