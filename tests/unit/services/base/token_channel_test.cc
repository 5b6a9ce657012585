#include "services/base/token_channel.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(TokenChannelTest, NotifiesOnceUntilTaken) {
  int notified = 0;
  TokenChannel channel(10, [&] { ++notified; });
  channel.Push({.token = 1});
  channel.Push({.token = 2});
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(channel.Take().tokens.size(), 2u);
  channel.Push({.token = 3});
  EXPECT_EQ(notified, 2);
}

TEST(TokenChannelTest, TheEndComesWithTheLastTokens) {
  TokenChannel channel(10, [] {});
  channel.Push({.token = 1});
  channel.Finish({.finish = FinishReason::kLength, .completion_tokens = 1});
  const TokenChannel::Batch batch = channel.Take();
  EXPECT_EQ(batch.tokens.size(), 1u);
  EXPECT_TRUE(batch.ended);
  EXPECT_EQ(batch.end.finish, FinishReason::kLength);
}

TEST(TokenChannelTest, AQuickReaderDoesNotGetTheLastTokenBeforeTheEnd) {
  int notified = 0;
  TokenChannel channel(10, [&] { ++notified; });
  channel.Push({.token = 1});
  channel.Push({.token = 2}, true);
  EXPECT_EQ(channel.Take().tokens.size(), 1u);
  EXPECT_EQ(notified, 1);
  channel.Finish({.finish = FinishReason::kStop, .completion_tokens = 2});
  EXPECT_EQ(notified, 2);
  const TokenChannel::Batch batch = channel.Take();
  ASSERT_EQ(batch.tokens.size(), 1u);
  EXPECT_EQ(batch.tokens[0].token, 2);
  EXPECT_TRUE(batch.ended);
}

TEST(TokenChannelDeathTest, MoreThanItsCapacityIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TokenChannel channel(1, [] {});
  channel.Push({.token = 1});
  EXPECT_DEATH(channel.Push({.token = 2}), "check failed");
}

}  // namespace
}  // namespace baton
