#include "common/chat/methods.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ContainerMethodsTest, ReadDicts) {
  const std::string context = R"({"d": {"b": 1, "a": "x"}})";
  EXPECT_EQ(Print("d.get('b') ~ d.get('z') ~ d.get('z', 3)", context), "1None3");
  EXPECT_EQ(Print("d.items() | list", context), "[('b', 1), ('a', 'x')]");
  EXPECT_EQ(Print("d.keys() | list ~ (d.values() | list)", context), "['b', 'a'][1, 'x']");
  EXPECT_EQ(Print("d.items()", context), "dict_items([('b', 1), ('a', 'x')])");
}

TEST(ContainerMethodsTest, SearchLists) {
  EXPECT_EQ(Print("[1, 2, 1].count(1) ~ [1, 2, 1].index(2) ~ [1, 2, 1].index(1, 1)"), "212");
  EXPECT_NE(Print("[1].index(5)").find("INVALID_ARGUMENT"), std::string::npos);
}

}  // namespace
}  // namespace baton
