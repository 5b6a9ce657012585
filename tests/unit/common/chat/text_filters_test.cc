#include "common/chat/filters.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(TextFiltersTest, WriteJsonAsPython) {
  EXPECT_EQ(Print(R"({'a': [1, 1.0, none, true], 'é': '"\n<'} | tojson)"),
            R"({"a": [1, 1.0, null, true], "é": "\"\n<"})");
  EXPECT_EQ(Print("{'a': [], 'b': {'c': 1}} | tojson(indent=2)"),
            "{\n  \"a\": [],\n  \"b\": {\n    \"c\": 1\n  }\n}");
  EXPECT_EQ(Print("{'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true)"),
            R"({"a":2,"b":1})");
}

TEST(TextFiltersTest, ChangeCase) {
  EXPECT_EQ(Print("'straße' | upper ~ ('ÀB' | lower) ~ ('aB' | capitalize)"), "STRASSEàbAb");
  EXPECT_EQ(Print("\"it's a-b (c)\" | title"), "It's A-B (C)");
}

TEST(TextFiltersTest, IndentAndReplace) {
  EXPECT_EQ(Print("'a\\nb\\n\\nc' | indent(2)"), "a\n  b\n\n  c");
  EXPECT_EQ(Print("'a\\nb' | indent('> ', true)"), "> a\n> b");
  EXPECT_EQ(Print("'aaa' | replace('a', 'b', 2) ~ (' x ' | trim) ~ ([1, none] | join('-'))"),
            "bbax1-None");
}

TEST(TextFiltersTest, EscapedTextEscapesItsNeighbours) {
  EXPECT_EQ(Print("('<' | e) + '>'"), "&lt;&gt;");
  EXPECT_EQ(Print("('<' | safe) ~ '>'"), "<>");
}

}  // namespace
}  // namespace baton
