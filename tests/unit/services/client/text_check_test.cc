#include "services/client/text_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace baton {
namespace {

using testing::HasSubstr;

std::string Model() { return std::string(BATON_SOURCE_DIR) + "/deploy/models/north-nano"; }

std::string Cases(const std::string& name) {
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/tests/fixtures/oracle/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TextCheckTest, NorthNanoPassesItsTokenizerCases) {
  const auto tokenizer = *Tokenizer::Load(Model());
  const auto report = CheckTokenizerCases(Cases("north-nano.tokenizer.json"), *tokenizer);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->case_count, 0);
  EXPECT_THAT(report->differences, testing::IsEmpty());
}

TEST(TextCheckTest, NorthNanoPassesItsChatCases) {
  const auto tokenizer = *Tokenizer::Load(Model());
  const auto chat_template = *ChatTemplate::Load(Model());
  const auto report = CheckChatCases(Cases("north-nano.chat.json"), *tokenizer, *chat_template);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->case_count, 0);
  EXPECT_THAT(report->differences, testing::IsEmpty());
}

TEST(TextCheckTest, ADifferenceIsNamed) {
  const auto tokenizer = *Tokenizer::Load(Model());
  const auto report = CheckTokenizerCases(
      R"([{"text": "abc1234def", "ids": [902], "ids_bos": [2, 902, 85, 1071, 37, 38, 338],
           "decoded": "abc", "decoded_skip": "abc"}])",
      *tokenizer);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(report->differences.empty());
  EXPECT_THAT(report->differences[0], HasSubstr("case 0: ids: wanted 902, found 902,85"));
}

TEST(TextCheckTest, FilesOfAnotherShapeAreRefused) {
  const auto tokenizer = *Tokenizer::Load(Model());
  for (const char* text : {"", "{}", "[]", "[1]", R"([{"text": "x"}])"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckTokenizerCases(text, *tokenizer).status())) << text;
  }
}

}  // namespace
}  // namespace baton
