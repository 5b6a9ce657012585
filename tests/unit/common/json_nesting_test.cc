#include "common/json_nesting.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

std::string Nested(int levels) {
  return std::string(static_cast<size_t>(levels), '[') +
         std::string(static_cast<size_t>(levels), ']');
}

TEST(JsonNestingTest, RefusesMoreLevelsThanTheLimit) {
  EXPECT_TRUE(CheckJsonNesting(Nested(kMaxJsonLevels), "f").ok());
  EXPECT_EQ(CheckJsonNesting(Nested(kMaxJsonLevels + 1), "f").message(),
            "f: wanted JSON of at most 100 levels, found more");
  std::string objects;
  for (int i = 0; i <= kMaxJsonLevels; ++i) objects += "{\"a\":";
  EXPECT_FALSE(CheckJsonNesting(objects, "f").ok());
}

TEST(JsonNestingTest, CountsLevelsNotBrackets) {
  std::string flat = "[";
  for (int i = 0; i < 1000; ++i) flat += "[],{},";
  EXPECT_TRUE(CheckJsonNesting(flat + "0]", "f").ok());
}

TEST(JsonNestingTest, BracketsInStringsDoNotCount) {
  const std::string deep = Nested(200);
  EXPECT_TRUE(CheckJsonNesting(absl::StrCat("\"", deep.substr(0, 200), "\""), "f").ok());
  EXPECT_TRUE(CheckJsonNesting(absl::StrCat("\"\\\"", deep.substr(0, 200), "\""), "f").ok());
  EXPECT_FALSE(CheckJsonNesting(absl::StrCat("\"\\\\\"", deep), "f").ok());
}

}  // namespace
}  // namespace baton
