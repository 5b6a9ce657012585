#include "common/chat/value_json.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ValueJsonTest, KeepsOrderAndWideIntegers) {
  EXPECT_EQ(
      Print("x | tojson", R"({"x": {"b": 18446744073709551615, "a": [-1, 0.5, null, true]}})"),
      R"({"b": 18446744073709551615, "a": [-1, 0.5, null, true]})");
}

TEST(ValueJsonTest, EscapesAsPython) {
  EXPECT_EQ(Print(R"('\x00\x1f\x7f\t\n\r\f\b"\\/é' | tojson)"),
            "\"\\u0000\\u001f\x7f\\t\\n\\r\\f\\b\\\"\\\\/é\"");
  EXPECT_EQ(Print("'é🙂' | tojson(ensure_ascii=true)"), R"("\u00e9\ud83d\ude42")");
}

TEST(ValueJsonTest, RefusesWhatHasNoForm) {
  for (const char* expression : {"x | tojson", "range(3) | tojson", "namespace() | tojson",
                                 "{(1, 2): 3} | tojson", "[1] | map('int') | tojson"}) {
    EXPECT_NE(Print(expression).find("INVALID_ARGUMENT"), std::string::npos) << expression;
  }
}

TEST(ValueJsonTest, BoundsTheDepthOfRequests) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_NE(Print("1", "{\"x\": " + deep + "}").find("RESOURCE_EXHAUSTED"), std::string::npos);
}

}  // namespace
}  // namespace baton
