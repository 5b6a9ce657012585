#include "common/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "common/text/utf8.h"
#include "tests/unit/common/text/tokenizer_fixture.h"

namespace baton {
namespace {

class StreamDetokenizerTest : public testing::Test {
 protected:
  StreamDetokenizerTest() : tokenizer_(Tokenizer::Load(NanoDir()).value()) {}

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(StreamDetokenizerTest, HoldsACharacterUntilItIsWhole) {
  const std::vector<TokenId> ids = tokenizer_->Encode("🙂", false).value();
  ASSERT_GT(ids.size(), 1u);
  StreamDetokenizer stream(*tokenizer_, false);
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(*stream.Push(ids[i]), "");
  EXPECT_EQ(*stream.Push(ids.back()), "🙂");
  EXPECT_EQ(stream.Flush(), "");
}

TEST_F(StreamDetokenizerTest, BytesThatCannotBecomeACharacterAreReplacedAtOnce) {
  const std::vector<TokenId> smile = tokenizer_->Encode("🙂", false).value();
  const TokenId letter = tokenizer_->Encode("x", false).value()[0];
  StreamDetokenizer stream(*tokenizer_, false);
  EXPECT_EQ(*stream.Push(smile[0]), "");
  EXPECT_EQ(*stream.Push(letter), "\uFFFDx");
  EXPECT_EQ(*stream.Push(smile[0]), "");
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST_F(StreamDetokenizerTest, PartsJoinedEqualDecodeAndAreValid) {
  std::mt19937 random(9);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids;
    // Low ids are single bytes: broken characters come often.
    for (int i = 0; i < 20; ++i) ids.push_back(random() % (random() % 2 ? 280 : 4096));
    const bool skip = random() % 2;
    StreamDetokenizer stream(*tokenizer_, skip);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string part = stream.Push(id).value();
      ASSERT_EQ(FindInvalidUtf8(part), std::string_view::npos);
      joined += part;
    }
    joined += stream.Flush();
    ASSERT_EQ(joined, *tokenizer_->Decode(ids, skip));
  }
}

TEST_F(StreamDetokenizerTest, UnknownIdsLeaveTheStreamAsItWas) {
  const std::vector<TokenId> smile = tokenizer_->Encode("🙂", false).value();
  StreamDetokenizer stream(*tokenizer_, false);
  ASSERT_TRUE(stream.Push(smile[0]).ok());
  EXPECT_EQ(stream.Push(-1).status().code(), absl::StatusCode::kInvalidArgument);
  std::string text;
  for (size_t i = 1; i < smile.size(); ++i) text += stream.Push(smile[i]).value();
  EXPECT_EQ(text, "🙂");
}

TEST_F(StreamDetokenizerTest, SpecialTokensAreLeftOutOnDemand) {
  StreamDetokenizer skipping(*tokenizer_, true);
  EXPECT_EQ(*skipping.Push(2), "");
  EXPECT_EQ(*skipping.Push(17), "<|START_TEXT|>");
  StreamDetokenizer keeping(*tokenizer_, false);
  EXPECT_EQ(*keeping.Push(2), "<BOS_TOKEN>");
}

}  // namespace
}  // namespace baton
