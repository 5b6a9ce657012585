#include "common/chat/chat_json.h"

#include <gtest/gtest.h>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

TEST(ChatJsonTest, IsTheParsersOwnValueOtherwise) {
  for (const char* text :
       {"null", "true", "-1", "18446744073709551615", "-9223372036854775808", "2.5", "1e30", "-0",
        "\"\\u00e9\"", "[]", "{}", R"([[1, [2]], {"b": {"c": []}, "a": [{}, 3]}, 4])",
        R"({"a": 1, "b": 2, "a": [3]})"}) {
    EXPECT_EQ(ParseChatJson(text), Json::parse(text)) << text;
    EXPECT_EQ(ParseChatJson(text).dump(), Json::parse(text).dump()) << text;
  }
}

TEST(ChatJsonTest, DiscardsWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "nul", "1 2", "\"\xff\"", "1e999", "{1: 2}"}) {
    EXPECT_TRUE(ParseChatJson(text).is_discarded()) << text;
  }
}

TEST(ChatJsonTest, IntegersBeyond64BitsKeepTheirDigits) {
  EXPECT_EQ(
      Print("x | tojson", R"({"x": [18446744073709551616, -9223372036854775809,
                                          170141183460469231731687303715884105727]})"),
      "[18446744073709551616, -9223372036854775809, 170141183460469231731687303715884105727]");
  EXPECT_EQ(Print("x", R"({"x": 18446744073709551616})"), "18446744073709551616");
  EXPECT_EQ(Print("x + 1", R"({"x": 18446744073709551616})"), "18446744073709551617");
  EXPECT_EQ(Print("x is integer", R"({"x": 18446744073709551616})"), "True");
  EXPECT_EQ(Print("x | tojson", R"({"x": 18446744073709551616.0})"), "1.8446744073709552e+19");
}

TEST(ChatJsonTest, RefusesAnIntegerBeyond128Bits) {
  const std::string text = Print("x", R"({"x": 170141183460469231731687303715884105728})");
  EXPECT_NE(text.find("more than 128 bits"), std::string::npos) << text;
}

}  // namespace
}  // namespace baton
