#include "common/text/added_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nlohmann::json Array(nlohmann::json::initializer_list_t elements) {
  return nlohmann::json::array(elements);
}

nlohmann::json Token(const char* content, int id, std::vector<const char*> flags = {}) {
  nlohmann::json token = {
      {"content", content}, {"id", id}, {"special", false}, {"normalized", false}};
  for (const char* flag : flags) token[flag] = true;
  return token;
}

class AddedVocabularyTest : public testing::Test {
 protected:
  AddedVocabularyTest() {
    const nlohmann::json json = {{"vocab", {{"a", 0}, {"b", 1}}},
                                 {"merges", nlohmann::json::array()}};
    model_ = BpeModel::Parse(JsonView(json, "model")).value();
    const nlohmann::json nfc = {{"type", "NFC"}};
    normalizer_ = Normalizer::Parse(JsonView(nfc, "normalizer")).value();
  }

  absl::StatusOr<AddedVocabulary> Parse(const nlohmann::json& json) {
    return AddedVocabulary::Parse(JsonView(json, "added"), *model_, normalizer_);
  }

  // The spans as "[token]" or text.
  std::vector<std::string> Split(const nlohmann::json& json, std::string_view text,
                                 bool normalized = false) {
    const auto added = Parse(json);
    EXPECT_TRUE(added.ok()) << added.status();
    std::vector<AddedSpan> spans;
    EXPECT_TRUE(added->Split(text, normalized, spans).ok());
    std::vector<std::string> shown;
    for (const AddedSpan& span : spans) {
      const std::string part(text.substr(span.begin, span.end - span.begin));
      shown.push_back(span.token ? "[" + part + "]" : part);
    }
    return shown;
  }

  std::unique_ptr<BpeModel> model_;
  Normalizer normalizer_;
};

TEST_F(AddedVocabularyTest, CutsTokensOutOfTheText) {
  const nlohmann::json tokens = {Token("<x>", 5), Token("<x><y>", 6)};
  EXPECT_THAT(Split(tokens, "p<x>q<x><y><x"), ElementsAre("p", "[<x>]", "q", "[<x><y>]", "<x"));
  EXPECT_THAT(Split(tokens, "plain"), ElementsAre("plain"));
  EXPECT_THAT(Split(tokens, ""), ElementsAre());
}

TEST_F(AddedVocabularyTest, StripFlagsTakeWhiteSpaceOnTheirSide) {
  EXPECT_THAT(Split(Array({Token("<x>", 5, {"lstrip"})}), "p \u3000<x> q"),
              ElementsAre("p", "[ \u3000<x>]", " q"));
  EXPECT_THAT(Split(Array({Token("<x>", 5, {"rstrip"})}), "p <x>\n\tq"),
              ElementsAre("p ", "[<x>\n\t]", "q"));
  EXPECT_THAT(Split(Array({Token("<x>", 5, {"lstrip", "rstrip"})}), "<x> <x>"),
              ElementsAre("[<x> ]", "[<x>]"));
}

TEST_F(AddedVocabularyTest, SingleWordsDoNotMatchWithinWords) {
  const nlohmann::json tokens = Array({Token("cat", 5, {"single_word"})});
  EXPECT_THAT(Split(tokens, "cat concat cats \u00e9cat cat."),
              ElementsAre("[cat]", " concat cats \u00e9cat ", "[cat]", "."));
  EXPECT_THAT(Split(tokens, "cat\u200d"), ElementsAre("cat\u200d"));
  EXPECT_THAT(Split(tokens, "cat\u00b2"), ElementsAre("[cat]", "\u00b2"));
}

TEST_F(AddedVocabularyTest, NormalizedTokensAreLookedForInNormalForm) {
  const nlohmann::json tokens = {Token("e\u0301", 5, {"normalized"}), Token("<x>", 6)};
  EXPECT_THAT(Split(tokens, "a\u00e9<x>", /*normalized=*/true),
              ElementsAre("a", "[\u00e9]", "<x>"));
  EXPECT_THAT(Split(tokens, "a\u00e9<x>", /*normalized=*/false), ElementsAre("a\u00e9", "[<x>]"));
}

TEST_F(AddedVocabularyTest, RefusesContradictions) {
  const auto refusal = [&](const nlohmann::json& json) {
    return std::string(Parse(json).status().message());
  };
  EXPECT_THAT(refusal(Array({Token("a", 7)})), HasSubstr("added[0].id: wanted 0, the model's id"));
  EXPECT_THAT(refusal(Array({Token("<x>", 1)})), HasSubstr("an id that the model does not use"));
  EXPECT_THAT(refusal(Array({Token("<x>", 5), Token("<y>", 5)})), HasSubstr("added[1].id"));
  EXPECT_THAT(refusal(Array({Token("<x>", 5), Token("<x>", 6)})), HasSubstr("added[1].content"));
  EXPECT_THAT(refusal(Array({Token("", 5)})),
              HasSubstr("added[0].content: wanted 1 to 1024 bytes"));
  EXPECT_THAT(refusal(Array({Token("<x>", -5)})), HasSubstr("found -5"));
  EXPECT_TRUE(Parse(Array({Token("a", 0)})).ok());
}

}  // namespace
}  // namespace baton
