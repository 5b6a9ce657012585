#include "common/text/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/text/byte_alphabet.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

nlohmann::json SmallModel() {
  return {{"type", "BPE"},
          {"vocab",
           {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"abc", 5}, {"aa", 6}, {"U", 7}}},
          {"merges", {"b c", "a b", "a bc", "a a"}}};
}

std::vector<TokenId> Encode(const nlohmann::json& json, std::string_view text) {
  const auto model = BpeModel::Parse(JsonView(json, "model"));
  EXPECT_TRUE(model.ok()) << model.status();
  std::vector<TokenId> ids;
  (*model)->Encode(text, ids);
  return ids;
}

std::string ModelRefusal(const nlohmann::json& json) {
  const auto model = BpeModel::Parse(JsonView(json, "model"));
  EXPECT_FALSE(model.ok());
  return std::string(model.status().message());
}

TEST(BpeModelTest, MergesByRankThenFromTheLeft) {
  EXPECT_THAT(Encode(SmallModel(), "abc"), ElementsAre(5));
  EXPECT_THAT(Encode(SmallModel(), "abb"), ElementsAre(3, 1));
  EXPECT_THAT(Encode(SmallModel(), "aaa"), ElementsAre(6, 0));
  EXPECT_THAT(Encode(SmallModel(), ""), ElementsAre());
}

TEST(BpeModelTest, BytesWithoutATokenAreDroppedOrUnknown) {
  nlohmann::json model = SmallModel();
  EXPECT_THAT(Encode(model, "bxxc"), ElementsAre(4));
  model["unk_token"] = "U";
  EXPECT_THAT(Encode(model, "bxxc"), ElementsAre(1, 7, 7, 2));
  model["fuse_unk"] = true;
  EXPECT_THAT(Encode(model, "bxxcx"), ElementsAre(1, 7, 2, 7));
}

TEST(BpeModelTest, IgnoreMergesTakesAWholePieceFirst) {
  nlohmann::json model = SmallModel();
  model["merges"] = nlohmann::json::array();
  EXPECT_THAT(Encode(model, "abc"), ElementsAre(0, 1, 2));
  model["ignore_merges"] = true;
  EXPECT_THAT(Encode(model, "abc"), ElementsAre(5));
  EXPECT_THAT(Encode(model, "abcc"), ElementsAre(0, 1, 2, 2));
}

TEST(BpeModelTest, RefusesWithPathWantedAndFound) {
  const auto changed = [](const char* key, nlohmann::json value) {
    nlohmann::json model = SmallModel();
    model[key] = std::move(value);
    return model;
  };
  EXPECT_THAT(ModelRefusal(changed("type", "Unigram")), HasSubstr("model.type: wanted \"BPE\""));
  EXPECT_THAT(ModelRefusal(changed("dropout", 0.1)), HasSubstr("model.dropout: wanted null"));
  EXPECT_THAT(ModelRefusal(changed("end_of_word_suffix", "</w>")), HasSubstr("found \"</w>\""));
  EXPECT_THAT(ModelRefusal(changed("unk_token", "V")), HasSubstr("model.unk_token"));
  EXPECT_THAT(ModelRefusal(changed("byte_fallback", true)), HasSubstr("all 256 bytes"));
  EXPECT_THAT(ModelRefusal(changed("surprise", 1)), HasSubstr("found \"surprise\""));
  EXPECT_THAT(ModelRefusal(changed("merges", nlohmann::json::array({"b z"}))),
              HasSubstr("model.merges[0]"));
  EXPECT_THAT(ModelRefusal(changed("merges", nlohmann::json::array({"b c", "a  b"}))),
              HasSubstr("model.merges[1]"));
  EXPECT_THAT(
      ModelRefusal(changed("merges", nlohmann::json::array({nlohmann::json::array({"a", 1})}))),
      HasSubstr("model.merges[0]"));
  EXPECT_THAT(ModelRefusal(changed("vocab", {{"a", -1}})), HasSubstr("model.vocab[\"a\"]"));
  EXPECT_THAT(ModelRefusal(changed("vocab", {{"a", 99999999}})), HasSubstr("found 99999999"));
  EXPECT_THAT(ModelRefusal(changed("vocab", {{"a", 1}, {"b", 1}})), HasSubstr("no other token"));
  EXPECT_THAT(ModelRefusal(changed("vocab", nlohmann::json::object())), HasSubstr("at least one"));
}

// The plain algorithm: the lowest-ranked pair, leftmost first, until none is left.
std::vector<std::string> MergeNaively(
    const std::vector<std::pair<std::string, std::string>>& merges, const std::string& text) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = merges.size(), best_at = 0;
    for (size_t at = 0; at + 1 < parts.size(); ++at) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].first == parts[at] && merges[rank].second == parts[at + 1]) {
          best_rank = rank;
          best_at = at;
        }
      }
    }
    if (best_rank == merges.size()) return parts;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<int64_t>(best_at) + 1);
  }
}

TEST(BpeModelTest, EqualsThePlainAlgorithmOnRandomModels) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    nlohmann::json model = {{"vocab", {{"a", 0}, {"b", 1}, {"c", 2}}},
                            {"merges", nlohmann::json::array()}};
    for (int i = 0; i < 12; ++i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (model["vocab"].contains(left + right)) continue;
      model["vocab"][left + right] = tokens.size();
      model["merges"].push_back({left, right});
      tokens.push_back(left + right);
      merges.emplace_back(left, right);
    }
    std::string text;
    for (int i = 0; i < 24; ++i) text.push_back("abc"[random() % 3]);
    std::vector<TokenId> wanted;
    for (const std::string& part : MergeNaively(merges, text))
      wanted.push_back(model["vocab"][part]);
    ASSERT_EQ(Encode(model, text), wanted) << text << " " << model;
  }
}

// Steps a byte must not grow with the length of one piece.
TEST(BpeModelTest, StepsGrowLinearly) {
  nlohmann::json model = {{"vocab", {{"a", 0}, {"b", 1}}}, {"merges", nlohmann::json::array()}};
  std::string left = "a";
  for (int id = 2; id < 18; ++id) {
    model["merges"].push_back({left, left});
    left += left;
    model["vocab"][left] = id;
  }
  const auto bpe = BpeModel::Parse(JsonView(model, "model"));
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  const auto steps = [&](size_t size, const std::string& unit) {
    std::string text;
    while (text.size() < size) text += unit;
    std::vector<TokenId> ids;
    return (*bpe)->Encode(text, ids);
  };
  for (const char* unit : {"a", "ab", "aab", "aaaaaaab"}) {
    EXPECT_LE(steps(1 << 20, unit), 70 * steps(1 << 14, unit)) << unit;  // 64 times the length.
  }
}

TEST(BpeModelTest, FindsTokensBothWays) {
  const nlohmann::json json = {{"vocab", {{"a", 0}, {"z", 3}}},
                               {"merges", nlohmann::json::array()}};
  const auto model = BpeModel::Parse(JsonView(json, "model"));
  ASSERT_TRUE(model.ok());
  EXPECT_EQ((*model)->vocab_size(), 4);
  EXPECT_EQ((*model)->TokenToId("z"), 3);
  EXPECT_EQ((*model)->TokenToId("y"), std::nullopt);
  EXPECT_EQ(*(*model)->IdToToken(3), "z");
  EXPECT_EQ((*model)->IdToToken(1), nullptr);
  EXPECT_EQ((*model)->IdToToken(-1), nullptr);
  EXPECT_EQ((*model)->IdToToken(4), nullptr);
}

}  // namespace
}  // namespace baton
