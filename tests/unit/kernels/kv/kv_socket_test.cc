#include "kernels/kv/kv_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>

namespace baton {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

struct Pair {
  UniqueFd client, server;
};

Pair Connected() {
  auto listener = ListenOnRandomName();
  EXPECT_TRUE(listener.ok()) << listener.status();
  Pair pair;
  pair.client = *ConnectByName(listener->name, milliseconds(200));
  pair.server = UniqueFd(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(pair.server.valid());
  return pair;
}

TEST(KvSocketTest, CarriesPacketsAndDescriptors) {
  const Pair pair = Connected();
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(SendPacket(pair.server.get(), "first", file.get()), absl::OkStatus());
  ASSERT_EQ(SendPacket(pair.server.get(), "second"), absl::OkStatus());
  const auto first = ReceivePacket(pair.client.get());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->bytes, "first");
  struct stat sent = {}, received = {};
  ASSERT_EQ(fstat(file.get(), &sent), 0);
  ASSERT_EQ(fstat(first->fd.get(), &received), 0);
  EXPECT_EQ(sent.st_rdev, received.st_rdev);
  EXPECT_NE(fcntl(first->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  const auto second = ReceivePacket(pair.client.get());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->bytes, "second");
  EXPECT_FALSE(second->fd.valid());
}

TEST(KvSocketTest, KnowsThePeer) {
  const Pair pair = Connected();
  EXPECT_EQ(CheckSameUser(pair.server.get()), absl::OkStatus());
  EXPECT_EQ(PeerPid(pair.server.get()), getpid());
}

TEST(KvSocketTest, TheEndOfThePeerIsSeenAtOnce) {
  Pair pair = Connected();
  pair.client = UniqueFd();
  pollfd end = {.fd = pair.server.get(), .events = POLLIN};
  ASSERT_EQ(poll(&end, 1, 1000), 1);
  EXPECT_NE(end.revents & POLLHUP, 0);
  EXPECT_EQ(ReceivePacket(pair.server.get()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(SendPacket(pair.server.get(), "x").code(), absl::StatusCode::kUnavailable);
}

TEST(KvSocketTest, GivesUpOnASilentPeer) {
  const Pair pair = Connected();
  EXPECT_EQ(ReceivePacket(pair.client.get()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(KvSocketTest, RefusesPacketsThatAreTooLong) {
  const Pair pair = Connected();
  ASSERT_EQ(SendPacket(pair.server.get(), std::string(kMaxKvPacketBytes + 1, 'x')),
            absl::OkStatus());
  EXPECT_EQ(ReceivePacket(pair.client.get()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(KvSocketTest, SaysWhoIsNotListening) {
  const auto refused = ConnectByName("baton-kv-nobody", milliseconds(200));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("@baton-kv-nobody"));
}

TEST(KvSocketTest, RefusesNamesThatDoNotFit) {
  for (const std::string& name : {std::string(), std::string(108, 'x')})
    EXPECT_EQ(ConnectByName(name, milliseconds(200)).status().code(),
              absl::StatusCode::kInvalidArgument);
}

TEST(KvSocketTest, NamesAreRandom) {
  const auto first = ListenOnRandomName(), second = ListenOnRandomName();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->name, second->name);
  EXPECT_EQ(first->name.size(), std::string("baton-kv-").size() + 32);
}

}  // namespace
}  // namespace baton
