#include "common/text/split_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nlohmann::json Split(const char* pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", behavior},
          {"invert", invert}};
}

std::vector<std::string> Apply(const nlohmann::json& json, std::string_view text) {
  const auto stage = SplitStage::Parse(JsonView(json, "split"));
  EXPECT_TRUE(stage.ok()) << stage.status();
  std::vector<std::string_view> parts;
  EXPECT_TRUE(stage->Apply(text, parts).ok());
  return {parts.begin(), parts.end()};
}

// The examples of SplitDelimiterBehavior's documentation in the `tokenizers` package.
TEST(SplitStageTest, BehavioursTreatTheDelimiterAsDocumented) {
  const char* text = "the-final--countdown";
  EXPECT_THAT(Apply(Split("-", "Removed"), text), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(Apply(Split("-", "Isolated"), text),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(Apply(Split("-", "MergedWithPrevious"), text),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(Apply(Split("-", "MergedWithNext"), text),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(Apply(Split("-", "Contiguous"), text),
              ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(SplitStageTest, InvertMakesTheRestTheDelimiter) {
  EXPECT_THAT(Apply(Split("[a-z]+", "Removed", true), "ab12cd"), ElementsAre("ab", "cd"));
}

TEST(SplitStageTest, LiteralPatternsAreNotExpressions) {
  nlohmann::json split = Split("", "Removed");
  split["pattern"] = {{"String", "a.c"}};
  EXPECT_THAT(Apply(split, "abca.cx"), ElementsAre("abc", "x"));
}

TEST(SplitStageTest, RefusesWithPathWantedAndFound) {
  const auto refusal = [](const nlohmann::json& json) {
    return std::string(SplitStage::Parse(JsonView(json, "split")).status().message());
  };
  EXPECT_THAT(refusal(Split("a", "Sideways")), HasSubstr("split.behavior: wanted Removed"));
  EXPECT_THAT(refusal(Split("(", "Removed")), HasSubstr("split.pattern.Regex: wanted"));
  EXPECT_THAT(refusal(Split("", "Removed")), HasSubstr("at least one character"));
  nlohmann::json both = Split("a", "Removed");
  both["pattern"]["String"] = "a";
  EXPECT_THAT(refusal(both), HasSubstr("split.pattern: wanted one of"));
}

TEST(SplitStageTest, Gpt2SplitsWordsWithTheirSpace) {
  const auto stage = SplitStage::Gpt2();
  ASSERT_TRUE(stage.ok()) << stage.status();
  std::vector<std::string_view> parts;
  ASSERT_TRUE(stage->Apply("it's 12  x\n", parts).ok());
  EXPECT_THAT(parts, ElementsAre("it", "'s", " 12", " ", " x", "\n"));
}

}  // namespace
}  // namespace baton
