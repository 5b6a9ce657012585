#include "kernels/models/json_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

JsonObject ParsedJson(const std::string& text) {
  auto object = JsonObject::Parse(text, "f.json", 1000);
  EXPECT_TRUE(object.ok()) << object.status();
  return *std::move(object);
}

TEST(JsonObject, ReadsEachType) {
  JsonObject object = ParsedJson(
      R"({"i": 7, "b": true, "n": 1, "x": 2.5, "s": "text", "strings": ["a", "b"], "ints": [1, 2],
          "none": null, "o": {"k": 3}})");
  EXPECT_EQ(object.Int("i", {0, 10}), 7);
  EXPECT_EQ(object.IntOr("missing", 4, {0, 10}), 4);
  EXPECT_EQ(object.IntOr("none", 5, {0, 10}), 5);
  EXPECT_TRUE(object.BoolOr("b", false));
  EXPECT_EQ(object.NumberOr("n", 0), 1.0);
  EXPECT_EQ(object.NumberOr("x", 0), 2.5);
  EXPECT_EQ(object.String("s"), "text");
  EXPECT_THAT(object.Strings("strings"), ElementsAre("a", "b"));
  EXPECT_THAT(object.Ints("ints", {0, 10}), ElementsAre(1, 2));
  EXPECT_THAT(object.Ints("i", {0, 10}), ElementsAre(7));
  EXPECT_EQ(object.Object("o").Int("k", {0, 10}), 3);
  EXPECT_FALSE(object.Has("none"));
  EXPECT_TRUE(object.Object("missing").json().empty());
  EXPECT_TRUE(object.status().ok()) << object.status();
}

TEST(JsonObject, KeepsTheFirstThingThatDoesNotFit) {
  JsonObject object = ParsedJson(R"({"i": 70, "s": 1})");
  EXPECT_EQ(object.IntOr("i", 4, {0, 10}), 4);
  object.StringOr("s", "");
  EXPECT_THAT(std::string(object.status().message()),
              AllOf(HasSubstr("f.json: key \"i\": want an integer in 0..10, found 70")));
}

struct WrongValue {
  const char* json;
  void (*read)(JsonObject&);
  const char* error;
};

const WrongValue kWrongValues[] = {
    {"{}",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found none"},
    {"{}", [](JsonObject& o) { o.String("k"); }, "want a string, found none"},
    {R"({"k": null})",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found none"},
    {R"({"k": "1"})",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found \"1\""},
    {R"({"k": 1.0})",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found 1.0"},
    {R"({"k": -1})",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found -1"},
    {R"({"k": true})",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found true"},
    {R"({"k": 4294967296})",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found 4294967296"},
    {R"({"k": 18446744073709551615})",
     [](JsonObject& o) {
       o.Int("k", {-1, 1});
     },
     "in -1..1"},
    {R"({"k": [1]})",
     [](JsonObject& o) {
       o.Int("k", {0, 1});
     },
     "found an array of 1"},
    {R"({"k": 1})", [](JsonObject& o) { o.BoolOr("k", false); }, "want true or false, found 1"},
    {R"({"k": "x"})", [](JsonObject& o) { o.NumberOr("k", 0); }, "want a finite number"},
    {R"({"k": 1})", [](JsonObject& o) { o.Strings("k"); }, "want an array of strings"},
    {R"({"k": ["a", 1]})", [](JsonObject& o) { o.Strings("k"); }, "found an array of 2"},
    {R"({"k": [1, 2]})",
     [](JsonObject& o) {
       o.Ints("k", {0, 1});
     },
     "found 2"},
    {R"({"k": []})", [](JsonObject& o) { o.Object("k"); }, "want an object"},
};

TEST(JsonObject, RefusesEachWrongValue) {
  for (const WrongValue& test_case : kWrongValues) {
    JsonObject object = ParsedJson(test_case.json);
    test_case.read(object);
    ASSERT_FALSE(object.status().ok()) << test_case.json;
    EXPECT_THAT(std::string(object.status().message()),
                AllOf(HasSubstr("f.json: key \"k\""), HasSubstr(test_case.error)))
        << test_case.json;
  }
}

TEST(JsonObject, RefusesWhatIsNoObject) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("1"), std::string("{"), std::string("{} {}"),
        std::string("{\"a\": 1e999}"), std::string("{\"\xff\": 1}"), std::string("{}\0", 3)}) {
    EXPECT_FALSE(JsonObject::Parse(text, "f.json", 1000).ok()) << text;
  }
  const std::string deep = "{\"a\": " + std::string(200, '[') + std::string(200, ']') + "}";
  EXPECT_THAT(std::string(JsonObject::Parse(deep, "f.json", 1000).status().message()),
              HasSubstr("f.json: wanted JSON of at most 100 levels"));
  EXPECT_THAT(std::string(JsonObject::Parse("{}   ", "f.json", 4).status().message()),
              HasSubstr("want at most 4 bytes, found 5"));
}

TEST(JsonObject, RefusesAKeyGivenTwice) {
  for (const char* text : {R"({"a": 1, "a": 1})", R"({"o": {"a": 1, "b": 2, "a": 3}})",
                           R"({"l": [{"a": 1}, {"a": 1, "a": 2}]})"}) {
    EXPECT_THAT(std::string(JsonObject::Parse(text, "f.json", 1000).status().message()),
                HasSubstr("key \"a\" is there twice"))
        << text;
  }
  EXPECT_TRUE(JsonObject::Parse(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "f", 1000).ok());
}

TEST(JsonObject, SurvivesDeepNesting) {
  const std::string deep(1'000'000, '[');
  EXPECT_FALSE(JsonObject::Parse("{\"a\":" + deep, "f.json", 4 << 20).ok());
}

}  // namespace
}  // namespace baton
