#include "common/text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Matches(const char* pattern, std::string_view text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<RegexMatch> matches;
  EXPECT_TRUE((*regex)->FindAll(text, matches).ok());
  std::vector<std::string> texts;
  for (const RegexMatch& match : matches) {
    texts.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  return texts;
}

constexpr char kDigitGroups[] = "\\d{1,3}(?=(?:\\d{3})*\\b)";

// Wanted values computed with the `tokenizers` package.
TEST(RegexTest, DigitsAreGroupedFromTheRight) {
  EXPECT_THAT(Matches(kDigitGroups, "1234567"), ElementsAre("1", "234", "567"));
  EXPECT_THAT(Matches(kDigitGroups, "12"), ElementsAre("12"));
  EXPECT_THAT(Matches(kDigitGroups, "abc1234def"), IsEmpty());
  EXPECT_THAT(Matches(kDigitGroups, "1,000,000"), ElementsAre("1", "000", "000"));
  EXPECT_THAT(Matches(kDigitGroups, "0x1F2345"), ElementsAre("2", "345"));
  EXPECT_THAT(Matches(kDigitGroups, "٣٤٥٦"), ElementsAre("٣", "٤٥٦"));
}

TEST(RegexTest, WordCharactersAreOnigurumas) {
  EXPECT_THAT(Matches(kDigitGroups, "1234²"), IsEmpty());
  EXPECT_THAT(Matches(kDigitGroups, "12①"), ElementsAre("12"));
  EXPECT_THAT(Matches(kDigitGroups, "12ⓐ"), IsEmpty());
  EXPECT_THAT(Matches(kDigitGroups, "123\u0301"), IsEmpty());
  EXPECT_THAT(Matches(kDigitGroups, "123\u200d"), ElementsAre("123"));
}

// The definition by plain backtracking, which the callout must agree with.
bool HoldsByDefinition(const std::string& text, size_t offset) {
  const auto is_digit = [&](size_t at) { return at < text.size() && isdigit(text[at]); };
  const auto is_word = [&](size_t at) { return at < text.size() && isalnum(text[at]); };
  for (size_t at = offset;; at += 3) {
    if ((at > 0 && is_word(at - 1)) != is_word(at)) return true;
    if (!is_digit(at) || !is_digit(at + 1) || !is_digit(at + 2)) return false;
  }
}

TEST(RegexTest, DigitGroupsEqualPlainBacktrackingOnEveryShortText) {
  constexpr char kLetters[] = "1a ";
  const auto regex = Regex::Compile(kDigitGroups);
  ASSERT_TRUE(regex.ok());
  for (int number = 0; number < 6561; ++number) {  // 3^8 texts of 8 characters.
    std::string text;
    for (int i = 0, rest = number; i < 8; ++i, rest /= 3) text.push_back(kLetters[rest % 3]);
    std::vector<RegexMatch> matches;
    ASSERT_TRUE((*regex)->FindAll(text, matches).ok());
    std::string found, wanted;
    for (const RegexMatch& match : matches) {
      found += std::to_string(match.begin) + "-" + std::to_string(match.end) + " ";
    }
    for (size_t at = 0; at < text.size();) {
      size_t length = 0;
      while (length < 3 && at + length < text.size() && text[at + length] == '1') ++length;
      while (length > 0 && !HoldsByDefinition(text, at + length)) --length;
      if (length > 0) wanted += std::to_string(at) + "-" + std::to_string(at + length) + " ";
      at += std::max<size_t>(length, 1);
    }
    ASSERT_EQ(found, wanted) << text;
  }
}

TEST(RegexTest, EmptyMatchesAdvanceByCharacters) {
  EXPECT_THAT(Matches("x*", "éx"), ElementsAre("", "x"));
  EXPECT_THAT(Matches("$", "a\nb"), ElementsAre("", ""));
}

TEST(RegexTest, SpaceIsWhiteSpaceAlone) {
  EXPECT_THAT(Matches("\\s+", "a\u180e\u0085b"), ElementsAre("\u0085"));
  EXPECT_THAT(Matches("[^\\S\n]", " \n"), ElementsAre(" "));
}

TEST(RegexTest, LettersOfUnicode16AreLetters) {
  EXPECT_THAT(Matches("\\p{L}+", "\U00031350\U000105C0"), ElementsAre("\U00031350\U000105C0"));
  EXPECT_THAT(Matches("\\p{Han}", "\U00031350x"), ElementsAre("\U00031350"));
}

TEST(RegexTest, EndlessBacktrackingIsAnError) {
  const auto regex = Regex::Compile("(?:a+)+b");
  ASSERT_TRUE(regex.ok());
  std::vector<RegexMatch> matches;
  // With a b further on, PCRE2 cannot give up at once.
  const absl::Status tried = (*regex)->FindAll(std::string(64, 'a') + "c b", matches);
  EXPECT_EQ(tried.code(), absl::StatusCode::kResourceExhausted) << tried;
}

TEST(RegexTest, DeepBacktrackingGetsALargerStack) {
  const std::string text(100000, 'a');
  const auto regex = Regex::Compile("(?:(?:a|b)+)$");
  ASSERT_TRUE(regex.ok());
  std::vector<RegexMatch> matches;
  const absl::Status status = (*regex)->FindAll(text, matches);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].end, text.size());
}

}  // namespace
}  // namespace baton
