#include "common/text/digit_group_table.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

struct Asked {
  std::vector<bool> holds;  // For every offset.
  int64_t questions = 0;
};

// Letters and digits are word characters, the rest is not.
Asked AskEverywhere(const std::string& text, int group_size, bool from_left) {
  const auto is_digit = [&](size_t at) -> absl::StatusOr<bool> { return isdigit(text[at]) != 0; };
  const auto is_word = [&](size_t at) { return at < text.size() && isalnum(text[at]) != 0; };
  const auto is_boundary = [&](size_t at) -> absl::StatusOr<bool> {
    return (at > 0 && is_word(at - 1)) != is_word(at);
  };
  DigitGroupTable table(text, group_size);
  Asked asked{std::vector<bool>(text.size() + 1), 0};
  for (size_t i = 0; i <= text.size(); ++i) {
    const size_t offset = from_left ? i : text.size() - i;
    asked.holds[offset] = table.Holds(offset, is_digit, is_boundary).value();
  }
  asked.questions = table.question_count();
  return asked;
}

TEST(DigitGroupTableTest, HoldsWhereWholeGroupsEndAtABoundary) {
  const std::vector<bool> wanted = {false, true, false, false, true, false, false, true};
  EXPECT_EQ(AskEverywhere("1234567", 3, true).holds, wanted);
  EXPECT_EQ(AskEverywhere("1234567", 3, false).holds, wanted);
}

TEST(DigitGroupTableTest, NothingHoldsBeforeALetter) {
  EXPECT_EQ(AskEverywhere("123456a", 3, true).holds,
            (std::vector<bool>{false, false, false, false, false, false, false, true}));
}

TEST(DigitGroupTableTest, AsksAboutEachPositionAFewTimesAtMost) {
  for (const bool from_left : {true, false}) {
    for (const char* unit : {"1", "12,", "1a", "1234567 "}) {
      std::string text;
      while (text.size() < 30000) text += unit;
      const Asked asked = AskEverywhere(text, 3, from_left);
      EXPECT_LE(asked.questions, static_cast<int64_t>(2 * text.size() + 2)) << unit;
    }
  }
}

}  // namespace
}  // namespace baton
