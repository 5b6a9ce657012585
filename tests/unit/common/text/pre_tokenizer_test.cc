#include "common/text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/text/tokenizer_fixture.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Pieces(const nlohmann::json& json, std::string_view text) {
  const auto pre = PreTokenizer::Parse(JsonView(json, "pre_tokenizer"));
  EXPECT_TRUE(pre.ok()) << pre.status();
  std::vector<std::string> pieces;
  EXPECT_TRUE(pre->Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); }).ok());
  return pieces;
}

std::string Refusal(const nlohmann::json& json) {
  return std::string(PreTokenizer::Parse(JsonView(json, "pre")).status().message());
}

nlohmann::json Nano() { return NanoJson()["pre_tokenizer"]; }

// Golden pieces of the North pre-tokenizer, computed with its two expressions.
TEST(PreTokenizerTest, NorthSplitsAsHuggingFaceDoes) {
  EXPECT_THAT(Pieces(Nano(), "1234567"), ElementsAre("1", "234", "567"));
  EXPECT_THAT(Pieces(Nano(), "abc1234def"), ElementsAre("abc", "123", "4", "def"));
  EXPECT_THAT(Pieces(Nano(), "v1234_5"), ElementsAre("v", "123", "4", "_", "5"));
  EXPECT_THAT(Pieces(Nano(), "  return 10"), ElementsAre(" ", " return", " ", "10"));
  EXPECT_THAT(Pieces(Nano(), "0x1F2345"), ElementsAre("0", "x", "1", "F", "2", "345"));
  EXPECT_THAT(Pieces(Nano(), "a\n\n  b"), ElementsAre("a", "\n\n", " ", " b"));
  EXPECT_THAT(Pieces(Nano(), "don't"), ElementsAre("don't"));
  EXPECT_THAT(Pieces(Nano(), ""), ElementsAre());
}

// Seen alone, the gap "\t " ends the text, so that (?!\S) holds at its end.
TEST(PreTokenizerTest, LookaheadsDoNotSeePastTheirGap) {
  EXPECT_THAT(Pieces(Nano(), "\t 9"), ElementsAre("\t ", "9"));
}

TEST(PreTokenizerTest, PrefixSpaceGoesBeforeEachPieceOfTheStageBefore) {
  const nlohmann::json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}};
  EXPECT_THAT(Pieces(byte_level, "a"), ElementsAre(" a"));
  EXPECT_THAT(Pieces(byte_level, " a"), ElementsAre(" a"));
  EXPECT_THAT(Pieces(byte_level, "\ta"), ElementsAre(" \ta"));
  nlohmann::json sequence = Nano();
  sequence["pretokenizers"].back() = byte_level;
  EXPECT_THAT(Pieces(sequence, "a1 b"), ElementsAre(" a", " 1", " b"));
}

TEST(PreTokenizerTest, RefusesOtherStagesAndOrders) {
  EXPECT_THAT(Refusal(nullptr), HasSubstr("pre: wanted ByteLevel"));
  EXPECT_THAT(Refusal({{"type", "Whitespace"}}), HasSubstr("pre.type: wanted ByteLevel"));
  nlohmann::json reversed = Nano();
  std::swap(reversed["pretokenizers"].front(), reversed["pretokenizers"].back());
  EXPECT_THAT(Refusal(reversed), HasSubstr("pre.pretokenizers[0]: wanted ByteLevel as the last"));
  nlohmann::json digits = Nano();
  digits["pretokenizers"][0] = {{"type", "Digits"}};
  EXPECT_THAT(Refusal(digits), HasSubstr("found \"Digits\""));
  nlohmann::json deep = {{"type", "ByteLevel"}};
  for (int i = 0; i < 20; ++i)
    deep = {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({deep})}};
  EXPECT_THAT(Refusal(deep), HasSubstr("wanted"));
}

}  // namespace
}  // namespace baton
