#include "common/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/text/utf8.h"
#include "tests/unit/common/text/tokenizer_fixture.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string OraclePath(const char* name) {
  return std::string(BATON_SOURCE_DIR) + "/tests/fixtures/oracle/" + name;
}

class TokenizerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto tokenizer = Tokenizer::Load(NanoDir());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    nano_ = std::move(*tokenizer).release();
  }
  static void TearDownTestSuite() { delete nano_; }

  static std::vector<TokenId> Encode(std::string_view text, bool special = false) {
    const auto ids = nano_->Encode(text, special);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.ok() ? *ids : std::vector<TokenId>();
  }

  static const Tokenizer* nano_;
};

const Tokenizer* TokenizerTest::nano_ = nullptr;

TEST_F(TokenizerTest, EqualsEveryOracleCase) {
  const nlohmann::json cases = ReadJson(OraclePath("north-nano.tokenizer.json"));
  ASSERT_GT(cases.size(), 10u);
  for (const nlohmann::json& wanted : cases) {
    const std::string text = wanted["text"];
    const std::vector<TokenId> ids = wanted["ids"];
    EXPECT_EQ(Encode(text), ids) << text;
    EXPECT_EQ(Encode(text, /*special=*/true), wanted["ids_bos"].get<std::vector<TokenId>>())
        << text;
    EXPECT_EQ(*nano_->Decode(ids, false), wanted["decoded"].get<std::string>()) << text;
    EXPECT_EQ(*nano_->Decode(ids, true), wanted["decoded_skip"].get<std::string>()) << text;
  }
}

TEST_F(TokenizerTest, EqualsTheIdsOfRenderedChats) {
  const nlohmann::json cases = ReadJson(OraclePath("north-nano.chat.json"));
  ASSERT_GT(cases.size(), 2u);
  for (const nlohmann::json& wanted : cases) {
    EXPECT_EQ(Encode(wanted["text"].get<std::string>()), wanted["ids"].get<std::vector<TokenId>>())
        << wanted["text"];
  }
}

TEST_F(TokenizerTest, KnowsItsTokens) {
  EXPECT_EQ(nano_->vocab_size(), 4096);
  EXPECT_EQ(nano_->bos_token(), "<BOS_TOKEN>");
  EXPECT_EQ(nano_->eos_token(), "<|END_OF_TURN_TOKEN|>");
  EXPECT_EQ(nano_->pad_token(), "<PAD>");
  EXPECT_EQ(nano_->unk_token(), "<UNK>");
  EXPECT_EQ(nano_->TokenToId("<BOS_TOKEN>"), 2);
  EXPECT_EQ(*nano_->IdToToken(17), "<|START_TEXT|>");
  EXPECT_TRUE(nano_->IsSpecial(2));
  EXPECT_FALSE(nano_->IsSpecial(17));
  EXPECT_FALSE(nano_->IsSpecial(-1));
  EXPECT_EQ(nano_->TokenToId("no such token"), std::nullopt);
  EXPECT_EQ(nano_->IdToToken(4096), nullptr);
}

TEST_F(TokenizerTest, RefusesTextThatIsNotUtf8AndUnknownIds) {
  const auto ids = nano_->Encode("ab\xFF", false);
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("found byte 0xff at offset 2 of 3"));
  for (const TokenId id : {-1, 4096, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(nano_->Decode({5, id}, true).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(TokenizerTest, RandomTextSurvivesARoundTrip) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i)
      AppendUtf8(random() % 3 ? random() % 0x250 : 0x4E00 + random() % 0x8000, text);
    EXPECT_EQ(*nano_->Decode(Encode(text), false), text);
  }
}

// Steps are counted in BpeModelTest and DigitGroupTableTest; here the whole path meets what is
// hard.
TEST_F(TokenizerTest, LongMonotonousTextsTakeLinearTime) {
  for (const char* unit :
       {"a",  " ", "1", "1a", "a b ",        "A",   "\n",      " \n", "日",     "e\u0301",
        "<|", "'", "²", "١",  "<BOS_TOKEN>", "\t ", "12 345,", "_",   "\u3000", "aB"}) {
    std::string text;
    while (text.size() < (1 << 16)) text += unit;
    for (const char* tail : {"", "x"}) {
      const std::vector<TokenId> ids = Encode(text + tail);
      ASSERT_EQ(*nano_->Decode(ids, false), text + tail) << unit;
    }
  }
}

TEST_F(TokenizerTest, LongDigitRunsAreGroupedFromTheRight) {
  const std::string million(1000000, '7');
  std::vector<TokenId> wanted = Encode("7");
  const std::vector<TokenId> group = Encode("777");
  for (int i = 0; i < 333333; ++i) wanted.insert(wanted.end(), group.begin(), group.end());
  EXPECT_EQ(Encode(million), wanted);
}

TEST(TokenizerLoadTest, LargeVocabulariesLoad) {
  nlohmann::json json = NanoJson();
  int next_id = 4096;
  for (int i = 0; next_id < 200000; ++i) {
    json["model"]["vocab"]["\u0100\u0100" + std::to_string(i)] = next_id++;
  }
  const auto tokenizer = LoadJson(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), 200000);
}

TEST(TokenizerLoadTest, RefusesWhatItDoesNotDo) {
  const auto refusal = [](const char* key, nlohmann::json value) {
    nlohmann::json json = NanoJson();
    json[key] = std::move(value);
    return std::string(LoadJson(json).status().message());
  };
  EXPECT_THAT(refusal("truncation", {{"max_length", 5}}),
              HasSubstr("tokenizer.json.truncation: wanted null"));
  EXPECT_THAT(refusal("padding", {{"pad_id", 5}}), HasSubstr(".padding: wanted null"));
  EXPECT_THAT(refusal("decoder", nullptr),
              HasSubstr(".decoder: wanted a ByteLevel decoder, found null"));
  EXPECT_THAT(refusal("decoder", {{"type", "WordPiece"}}),
              HasSubstr(".decoder.type: wanted ByteLevel"));
  EXPECT_THAT(refusal("version", "2.0"), HasSubstr(".version: wanted \"1.0\", found \"2.0\""));
  EXPECT_THAT(refusal("novelty", 1), HasSubstr("found \"novelty\""));
  EXPECT_THAT(refusal("model", nullptr), HasSubstr(".model: wanted an object"));
  EXPECT_EQ(Tokenizer::Load("/nonexistent").status().code(), absl::StatusCode::kNotFound);
}

TEST(TokenizerLoadTest, ReadsTokenNamesInBothForms) {
  const ModelDir dir;
  dir.Write("tokenizer.json", NanoJson().dump());
  dir.Write(
      "tokenizer_config.json",
      R"({"bos_token": {"content": "<BOS_TOKEN>", "lstrip": false}, "eos_token": "<EOS_TOKEN>"})");
  const auto tokenizer = Tokenizer::Load(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->bos_token(), "<BOS_TOKEN>");
  EXPECT_EQ((*tokenizer)->eos_token(), "<EOS_TOKEN>");
  EXPECT_EQ((*tokenizer)->pad_token(), "");
  dir.Write("tokenizer_config.json", R"({"eos_token": "<NONE>"})");
  EXPECT_THAT(std::string(Tokenizer::Load(dir.path()).status().message()),
              HasSubstr("tokenizer_config.json.eos_token: wanted a token of tokenizer.json"));
}

// Replaces one random value or removes one random member somewhere in `json`.
void Mutate(nlohmann::json& json, std::mt19937& random) {
  nlohmann::json* place = &json;
  while (place->is_structured() && !place->empty() && random() % 8 != 0) {
    auto at = place->begin();
    std::advance(at, random() % std::min<size_t>(place->size(), 500));
    place = &*at;
  }
  const nlohmann::json values[] = {nullptr,
                                   true,
                                   -1,
                                   3,
                                   2.5,
                                   1e300,
                                   18446744073709551615u,
                                   "",
                                   "\\d+",
                                   "(",
                                   "Ġ",
                                   {1},
                                   {{"type", "Sequence"}}};
  *place = values[random() % std::size(values)];
}

TEST(TokenizerLoadTest, MutatedFilesLoadOrAreRefusedButNeverCrash) {
  std::mt19937 random(11);
  nlohmann::json small = NanoJson();  // Few merges and tokens, so that mutants hit the rest.
  small["model"]["merges"] = {"a b", "Ġ t"};
  small["model"]["vocab"] = {{"a", 19}, {"b", 20}, {"ab", 21}, {"Ġ", 22}, {"t", 23}, {"Ġt", 24}};
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    nlohmann::json mutant = small;
    Mutate(mutant, random);
    const auto tokenizer = LoadJson(mutant);
    refused += !tokenizer.ok();
    if (!tokenizer.ok()) continue;
    const auto ids = (*tokenizer)->Encode("ab 123 <BOS_TOKEN>\u00e9", true);
    if (!ids.ok()) continue;
    EXPECT_TRUE((*tokenizer)->Decode(*ids, false).ok());
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 400);
}

TEST(TokenizerLoadTest, RandomBytesAreRefused) {
  std::mt19937 random(5);
  nlohmann::json small = NanoJson();
  small["model"] = {{"vocab", {{"a", 19}}}, {"merges", nlohmann::json::array()}};
  const std::string text = small.dump();
  ASSERT_TRUE(LoadText(text).ok()) << LoadText(text).status();
  for (int round = 0; round < 300; ++round) {
    std::string bytes = text;
    for (int i = 0; i < 1 + round % 5; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    const auto tokenizer = LoadText(bytes);
    if (!tokenizer.ok()) continue;
    EXPECT_TRUE((*tokenizer)->Encode("a1 ", true).ok());
  }
  EXPECT_FALSE(LoadText("").ok());
  EXPECT_FALSE(LoadText(std::string(100000, '[')).ok());
  EXPECT_FALSE(LoadText(std::string(100000, '[') + std::string(100000, ']')).ok());
}

}  // namespace
}  // namespace baton
