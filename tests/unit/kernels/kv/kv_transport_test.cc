// What every KV transport must do, between two real processes. Kinds that this machine cannot run
// are skipped with the reason.
#include "kernels/kv/kv_transport.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "kernels/kv/kv_transport_factory.h"
#include "tests/unit/kernels/kv/kv_test_layout.h"
#include "tests/unit/kernels/kv/peer_process.h"

namespace baton {
namespace {

using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kCycleCount = 100;

// What the importer asks for and what it would have built itself.
struct AttachTerms {
  std::string incarnation = "d0";
  int fingerprint = 7;
  int full_pages = 8;
};

class KvTransportTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    owner_ = StartOwner("d0");
    if (const std::string& line = owner_->greeting(); line.starts_with("unavailable"))
      GTEST_SKIP() << GetParam() << ": " << line;
    importer_ = StartImporter("p0");
    ASSERT_EQ(importer_->greeting(), "ready");
  }

  std::unique_ptr<PeerProcess> StartOwner(const std::string& incarnation) const {
    return std::make_unique<PeerProcess>(
        std::vector<std::string>{"owner", GetParam(), incarnation});
  }
  std::unique_ptr<PeerProcess> StartImporter(const std::string& incarnation) const {
    return std::make_unique<PeerProcess>(
        std::vector<std::string>{"importer", GetParam(), incarnation});
  }

  static std::string Attach(PeerProcess& importer, const PeerProcess& owner,
                            const AttachTerms& terms = {}) {
    std::ostringstream command;
    command << "attach " << terms.incarnation << owner.greeting().substr(5) << " "
            << terms.fingerprint << " " << terms.full_pages;
    return importer.Ask(command.str());
  }
  static std::string Socket(const PeerProcess& owner) {
    std::istringstream words(owner.greeting().substr(5));
    std::string socket;
    words >> socket;
    return socket;
  }

  std::unique_ptr<PeerProcess> owner_, importer_;
};

// Whether a listening or connected socket of this name exists on the machine.
bool SocketExists(const std::string& name) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    if (line.find(absl::StrCat("@", name)) != std::string::npos) return true;
  return false;
}

std::set<std::string> SharedMemoryFiles() {
  std::set<std::string> names;
  DIR* directory = opendir("/dev/shm");
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory))
    if (std::string(entry->d_name).find("baton") != std::string::npos) names.insert(entry->d_name);
  closedir(directory);
  return names;
}

std::string PageCommand(const std::string& verb, KvGroup group, PageId page) {
  const KvGroupLayout layout = TestLayout(8, 8).groups[group];
  return absl::StrCat(verb, " ", layout.offset_bytes + page * layout.page_bytes, " ",
                      layout.page_bytes);
}

TEST_P(KvTransportTest, EveryPageArrivesAsItWasWritten) {
  ASSERT_THAT(Attach(*importer_, *owner_), StartsWith("ok "));
  for (KvGroup group : {kFullGroup, kWindowGroup}) {
    for (PageId page = 1; page < 8; ++page) {
      const std::string command = PageCommand("write", group, page);
      ASSERT_EQ(importer_->Ask(absl::StrCat(command, " ", page + 100 * group)), "ok");
    }
  }
  std::set<std::string> sums;
  for (KvGroup group : {kFullGroup, kWindowGroup}) {
    for (PageId page = 1; page < 8; ++page) {
      const std::string sum = owner_->Ask(PageCommand("sum", group, page));
      EXPECT_EQ(sum, importer_->Ask(PageCommand("sum", group, page)));
      EXPECT_TRUE(sums.insert(sum).second) << "pages of different seeds are equal";
    }
  }
  // The other way: what the owner writes, the importer reads (a cached prefix).
  ASSERT_EQ(owner_->Ask(PageCommand("write", kFullGroup, 3) + " 999"), "ok");
  EXPECT_EQ(owner_->Ask(PageCommand("sum", kFullGroup, 3)),
            importer_->Ask(PageCommand("sum", kFullGroup, 3)));
}

TEST_P(KvTransportTest, SelfTestMeasuresBothDirections) {
  std::istringstream words(Attach(*importer_, *owner_));
  std::string ok;
  double write_speed = 0, read_speed = 0;
  words >> ok >> write_speed >> read_speed;
  EXPECT_EQ(ok, "ok");
  EXPECT_GT(write_speed, 1e6);
  EXPECT_GT(read_speed, 1e6);
}

TEST_P(KvTransportTest, MismatchesAreRefusedWithReasons) {
  EXPECT_THAT(Attach(*importer_, *owner_, {.fingerprint = 8}),
              HasSubstr("model_fingerprint: wanted 8, found 7"));
  EXPECT_THAT(Attach(*importer_, *owner_, {.full_pages = 9}),
              HasSubstr("group 0 page_count: wanted 9, found 8"));
  EXPECT_THAT(Attach(*importer_, *owner_, {.incarnation = "d1"}),
              HasSubstr("KV arena incarnation: wanted d1, found d0"));
  EXPECT_EQ(owner_->Ask("peers"), "0");
  EXPECT_THAT(Attach(*importer_, *owner_), StartsWith("ok "));
}

TEST_P(KvTransportTest, OwnerNoticesAKilledImporterWithinASecond) {
  ASSERT_THAT(Attach(*importer_, *owner_), StartsWith("ok "));
  EXPECT_EQ(owner_->Ask("event"), "attached p0");
  const auto killed = steady_clock::now();
  importer_->KillNow();
  EXPECT_EQ(owner_->Ask("event"), "gone p0");
  EXPECT_LT(steady_clock::now() - killed, std::chrono::seconds(1));
  auto restarted = StartImporter("p1");
  EXPECT_THAT(Attach(*restarted, *owner_), StartsWith("ok "));
  EXPECT_EQ(owner_->Ask("event"), "attached p1");
}

TEST_P(KvTransportTest, ImporterNoticesAKilledOwnerWithinASecond) {
  ASSERT_THAT(Attach(*importer_, *owner_), StartsWith("ok "));
  const std::string socket = Socket(*owner_);
  EXPECT_TRUE(SocketExists(socket));
  const auto killed = steady_clock::now();
  owner_->KillNow();
  EXPECT_EQ(importer_->Ask("event"), "gone d0");
  EXPECT_LT(steady_clock::now() - killed, std::chrono::seconds(1));
  EXPECT_EQ(importer_->Ask("detach"), "ok");
  EXPECT_THAT(importer_->Ask("resources"), testing::EndsWith(" 0"));
  EXPECT_FALSE(SocketExists(socket));
  auto restarted = StartOwner("d1");
  EXPECT_THAT(Attach(*importer_, *restarted, {.incarnation = "d1"}), StartsWith("ok "));
}

TEST_P(KvTransportTest, NothingIsLeftBehindAfterBothAreKilled) {
  ASSERT_THAT(Attach(*importer_, *owner_), StartsWith("ok "));
  const std::string socket = Socket(*owner_);
  owner_->KillNow();
  importer_->KillNow();
  EXPECT_FALSE(SocketExists(socket));
  EXPECT_TRUE(SharedMemoryFiles().empty());
}

TEST_P(KvTransportTest, AStoppedImporterIsNotTakenForADeadOne) {
  ASSERT_THAT(Attach(*importer_, *owner_), StartsWith("ok "));
  EXPECT_EQ(owner_->Ask("event"), "attached p0");
  importer_->Signal(SIGSTOP);
  auto other = StartImporter("p1");
  EXPECT_THAT(Attach(*other, *owner_), StartsWith("ok "));
  EXPECT_EQ(owner_->Ask("event"), "attached p1");
  EXPECT_EQ(owner_->Ask("peers"), "2");
  importer_->Signal(SIGCONT);
  EXPECT_EQ(importer_->Ask(PageCommand("write", kFullGroup, 1) + " 5"), "ok");
}

TEST_P(KvTransportTest, ManyAttachesLeakNothing) {
  std::string owner_first, importer_first;
  for (int cycle = 0; cycle < kCycleCount; ++cycle) {
    ASSERT_THAT(Attach(*importer_, *owner_), StartsWith("ok ")) << "cycle " << cycle;
    ASSERT_EQ(owner_->Ask("event"), "attached p0");
    ASSERT_EQ(importer_->Ask("detach"), "ok");
    ASSERT_EQ(owner_->Ask("event"), "gone p0");
    if (cycle == 0) {
      owner_first = owner_->Ask("resources");
      importer_first = importer_->Ask("resources");
    }
  }
  EXPECT_EQ(owner_->Ask("resources"), owner_first);
  EXPECT_EQ(importer_->Ask("resources"), importer_first);
  EXPECT_EQ(owner_->Ask("peers"), "0");
}

TEST_P(KvTransportTest, BothEndInOrder) {
  ASSERT_THAT(Attach(*importer_, *owner_), StartsWith("ok "));
  EXPECT_EQ(importer_->Stop(), 0);
  EXPECT_EQ(owner_->Stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, KvTransportTest, testing::ValuesIn(KvTransportKinds()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace baton
