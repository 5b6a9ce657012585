#include "kernels/kv/kv_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/kv/kv_handshake.h"
#include "kernels/kv/kv_socket.h"
#include "kernels/kv/kv_transport_factory.h"
#include "tests/unit/kernels/kv/event_queue.h"
#include "tests/unit/kernels/kv/kv_test_layout.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

// An exporter and raw sockets against it, well-behaved or not.
class KvExporterTest : public testing::Test {
 protected:
  void SetUp() override {
    transport_ = *MakeKvTransport({.kind = "posix_shm"});
    options_.descriptor = DescribeArena(TestLayout(4, 4), {.transport = "posix_shm"});
    memory_ = *transport_->Allocate(options_.descriptor.size_bytes);
    options_.incarnation = "d0";
    options_.transport = transport_.get();
    options_.memory = memory_.get();
    options_.on_peer = [this](const KvPeerEvent& event) {
      const bool attached = event.kind == KvPeerEvent::Kind::kAttached;
      events_.Push((attached ? "attached " : "gone ") + event.incarnation);
    };
    exporter_ = *KvExporter::Start(options_);
  }

  UniqueFd Connect() { return *ConnectByName(exporter_->descriptor().socket, milliseconds(3000)); }
  UniqueFd SayHello(const std::string& incarnation) {
    UniqueFd fd = Connect();
    EXPECT_EQ(SendPacket(fd.get(), EncodeHello({"d0", incarnation})), absl::OkStatus());
    return fd;
  }
  static bool AnswersWithin(const UniqueFd& fd, milliseconds limit) {
    pollfd ready = {.fd = fd.get(), .events = POLLIN};
    return poll(&ready, 1, static_cast<int>(limit.count())) == 1;
  }

  std::unique_ptr<KvTransport> transport_;
  std::unique_ptr<KvMemory> memory_;
  EventQueue events_;
  KvExporterOptions options_;
  std::unique_ptr<KvExporter> exporter_;
};

TEST_F(KvExporterTest, CompletesTheDescriptor) {
  const KvArenaDescriptor& descriptor = exporter_->descriptor();
  EXPECT_EQ(descriptor.incarnation, "d0");
  EXPECT_EQ(descriptor.owner_pid, static_cast<uint32_t>(getpid()));
  EXPECT_TRUE(descriptor.ipc_handle.empty());
  EXPECT_FALSE(descriptor.socket.empty());
}

TEST_F(KvExporterTest, RefusesMemoryThatDoesNotFitTheLayout) {
  options_.descriptor.size_bytes += 1;
  EXPECT_EQ(KvExporter::Start(options_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(KvExporterTest, SleepsBesideAPeerThatHasHalfClosed) {
  UniqueFd peer = SayHello("p0");
  ASSERT_TRUE(ReceivePacket(peer.get()).ok());
  shutdown(peer.get(), SHUT_WR);
  const std::clock_t before = std::clock();  // Of all threads.
  std::this_thread::sleep_for(milliseconds(500));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.1);
  EXPECT_EQ(exporter_->peer_count(), 1);
  peer = UniqueFd();
  EXPECT_EQ(events_.Pop(), "attached p0");
  EXPECT_EQ(events_.Pop(), "gone p0");
}

TEST_F(KvExporterTest, HandsOutTheMemoryAfterTheOwnerKnowsThePeer) {
  const UniqueFd peer = SayHello("p0");
  const auto answer = ReceivePacket(peer.get());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(ParseAnswer(answer->bytes), absl::OkStatus());
  EXPECT_TRUE(answer->fd.valid());
  EXPECT_FALSE(events_.Empty());
  EXPECT_EQ(events_.Pop(), "attached p0");
}

TEST_F(KvExporterTest, RefusesWhoeverMeansAnotherArenaOrTalksNonsense) {
  for (const std::string& packet : {EncodeHello({"d1", "p0"}), std::string("nonsense")}) {
    const UniqueFd peer = Connect();
    ASSERT_EQ(SendPacket(peer.get(), packet), absl::OkStatus());
    const auto answer = ReceivePacket(peer.get());
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_FALSE(ParseAnswer(answer->bytes).ok());
    EXPECT_FALSE(answer->fd.valid());
    EXPECT_EQ(ReceivePacket(peer.get()).status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(events_.Empty());
}

TEST_F(KvExporterTest, LetsOnePeerTestAtATime) {
  UniqueFd first = SayHello("p0");
  ASSERT_TRUE(AnswersWithin(first, milliseconds(3000)));
  const UniqueFd second = SayHello("p1");
  EXPECT_FALSE(AnswersWithin(second, milliseconds(100)));
  ASSERT_EQ(SendPacket(first.get(), kKvTestedPacket), absl::OkStatus());
  EXPECT_TRUE(AnswersWithin(second, milliseconds(3000)));
}

TEST_F(KvExporterTest, APeerThatDiesWhileTestingGivesItsTurnAway) {
  UniqueFd first = SayHello("p0");
  ASSERT_TRUE(AnswersWithin(first, milliseconds(3000)));
  const UniqueFd second = SayHello("p1");
  first = UniqueFd();
  EXPECT_TRUE(AnswersWithin(second, milliseconds(3000)));
  EXPECT_EQ(events_.Pop(), "attached p0");
  EXPECT_EQ(events_.Pop(), "gone p0");
  EXPECT_EQ(events_.Pop(), "attached p1");
}

TEST_F(KvExporterTest, ReportsAPeerGoneWithItsLastConnection) {
  UniqueFd first = SayHello("p0");
  ASSERT_TRUE(ReceivePacket(first.get()).ok());
  ASSERT_EQ(SendPacket(first.get(), kKvTestedPacket), absl::OkStatus());
  UniqueFd second = SayHello("p0");
  ASSERT_TRUE(ReceivePacket(second.get()).ok());
  first = UniqueFd();
  const UniqueFd other = SayHello("p1");  // Handled after the end of `first`, at the latest now.
  ASSERT_EQ(SendPacket(second.get(), kKvTestedPacket), absl::OkStatus());
  ASSERT_TRUE(ReceivePacket(other.get()).ok());
  EXPECT_EQ(events_.Pop(), "attached p0");
  EXPECT_EQ(events_.Pop(), "attached p1");
  second = UniqueFd();
  EXPECT_EQ(events_.Pop(), "gone p0");
}

TEST_F(KvExporterTest, APeerThatSendsJunkLaterIsStillAPeer) {
  const UniqueFd peer = SayHello("p0");
  ASSERT_TRUE(ReceivePacket(peer.get()).ok());
  ASSERT_EQ(SendPacket(peer.get(), kKvTestedPacket), absl::OkStatus());
  ASSERT_EQ(SendPacket(peer.get(), std::string(kMaxKvPacketBytes + 9, 'x')), absl::OkStatus());
  ASSERT_EQ(SendPacket(peer.get(), EncodeHello({"d0", "p1"})), absl::OkStatus());
  const UniqueFd other = SayHello("p2");
  ASSERT_TRUE(ReceivePacket(other.get()).ok());
  EXPECT_EQ(exporter_->peer_count(), 2);
  EXPECT_EQ(events_.Pop(), "attached p0");
  EXPECT_EQ(events_.Pop(), "attached p2");
}

TEST_F(KvExporterTest, RefusesMorePeersThanItsLimit) {
  std::vector<UniqueFd> peers;
  for (int i = 0; i < KvExporter::kMaxPeers; ++i) {
    peers.push_back(SayHello(absl::StrCat("p", i)));
    ASSERT_TRUE(ReceivePacket(peers.back().get()).ok());
    ASSERT_EQ(SendPacket(peers.back().get(), kKvTestedPacket), absl::OkStatus());
  }
  const UniqueFd refused = SayHello("late");
  const auto answer = ReceivePacket(refused.get());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(ParseAnswer(answer->bytes).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(KvExporterTest, AsksPeersToUnmapWhenItStops) {
  UniqueFd peer = SayHello("p0");
  ASSERT_TRUE(ReceivePacket(peer.get()).ok());
  std::thread stop([this] { exporter_.reset(); });
  pollfd end = {.fd = peer.get(), .events = POLLRDHUP};
  EXPECT_EQ(poll(&end, 1, 3000), 1);
  EXPECT_NE(end.revents & POLLRDHUP, 0);
  peer = UniqueFd();
  stop.join();
  EXPECT_EQ(events_.Pop(), "attached p0");
  EXPECT_EQ(events_.Pop(), "gone p0");
}

}  // namespace
}  // namespace baton
