#include "services/base/peer_channel.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(PeerChannelTest, ConnectsLazily) {
  const auto channel = MakePeerChannel("127.0.0.1:1");
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_IDLE);
}

}  // namespace
}  // namespace baton
