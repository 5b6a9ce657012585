#include "kernels/kv/kv_importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/kv/kv_exporter.h"
#include "kernels/kv/kv_transport_factory.h"
#include "tests/unit/kernels/kv/event_queue.h"
#include "tests/unit/kernels/kv/kv_test_layout.h"

namespace baton {
namespace {

using testing::HasSubstr;

// An owner and importers in one process, over posix_shm.
class KvImporterTest : public testing::Test {
 protected:
  void SetUp() override {
    transport_ = *MakeKvTransport({.kind = "posix_shm"});
    wanted_ = DescribeArena(TestLayout(4, 4), {.transport = "posix_shm", .device_uuid = "host"});
    memory_ = *transport_->Allocate(wanted_.size_bytes);
    exporter_ = MakeExporter("d0");
    importer_ = MakeImporter("p0");
  }
  std::unique_ptr<KvExporter> MakeExporter(const std::string& incarnation) {
    auto exporter = KvExporter::Start(
        {.descriptor = wanted_,
         .incarnation = incarnation,
         .transport = transport_.get(),
         .memory = memory_.get(),
         .on_peer = [this](const KvPeerEvent& event) {
           peers_.Push((event.kind == KvPeerEvent::Kind::kAttached ? "attached " : "gone ") +
                       event.incarnation);
         }});
    EXPECT_TRUE(exporter.ok()) << exporter.status();
    return std::move(*exporter);
  }
  std::unique_ptr<KvImporter> MakeImporter(const std::string& incarnation) {
    return *KvImporter::Start(
        {.incarnation = incarnation,
         .transport = transport_.get(),
         .on_owner_gone = [this](std::string_view owner) { owners_.Push(std::string(owner)); }});
  }

  std::unique_ptr<KvTransport> transport_;
  KvArenaDescriptor wanted_;
  EventQueue peers_, owners_;
  std::unique_ptr<KvMemory> memory_;
  std::unique_ptr<KvExporter> exporter_;
  std::unique_ptr<KvImporter> importer_;
};

TEST_F(KvImporterTest, RefusesAnOwnerWhoseLayersHaveNoPages) {
  // As AttachArena: what is wanted has the page counts of what was found.
  wanted_ = DescribeArena(TestLayout(4, 0), {.transport = "posix_shm", .device_uuid = "host"});
  memory_ = *transport_->Allocate(wanted_.size_bytes);
  const auto exporter = MakeExporter("d1");
  const absl::Status status = importer_->Attach(exporter->descriptor(), wanted_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("group 1 page_count: wanted more than 0 for its layers, found 0"));
}

TEST_F(KvImporterTest, WritesArriveInTheOwnersMemory) {
  auto arena = importer_->Attach(exporter_->descriptor(), wanted_);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(peers_.Pop(), "attached p0");
  EXPECT_NE((*arena)->base(), memory_->base());
  const uint64_t offset = (*arena)->layout().TileOffset(1, 2, 1, 1);
  std::strcpy(static_cast<char*>((*arena)->base()) + offset, "keys");
  EXPECT_STREQ(static_cast<char*>(memory_->base()) + offset, "keys");
  EXPECT_GT((*arena)->self_test().write_bytes_per_second, 0);
  EXPECT_GT((*arena)->self_test().read_bytes_per_second, 0);
  EXPECT_EQ(exporter_->peer_count(), 1);
}

TEST_F(KvImporterTest, AttachingAgainGivesTheSameMapping) {
  const auto first = *importer_->Attach(exporter_->descriptor(), wanted_);
  EXPECT_EQ(*importer_->Attach(exporter_->descriptor(), wanted_), first);
  EXPECT_EQ(importer_->Find("d0"), first);
  EXPECT_EQ(importer_->Find("d1"), nullptr);
  EXPECT_EQ(importer_->arena_count(), 1);
}

TEST_F(KvImporterTest, ConcurrentAttachesShareOneMappingAndOnePeer) {
  std::vector<std::thread> threads;
  std::vector<const KvImportedArena*> bases(8);
  for (auto& base : bases)
    threads.emplace_back([&] {
      const auto arena = importer_->Attach(exporter_->descriptor(), wanted_);
      if (arena.ok()) base = arena->get();
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto* base : bases) EXPECT_EQ(base, importer_->Find("d0").get());
  EXPECT_EQ(peers_.Pop(), "attached p0");
  importer_.reset();
  EXPECT_EQ(peers_.Pop(), "gone p0");  // And no "gone" for the mappings that lost the race.
}

TEST_F(KvImporterTest, RefusesDescriptorsThatDiffer) {
  wanted_.model_fingerprint = 1;
  const auto refused = importer_->Attach(exporter_->descriptor(), wanted_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("model_fingerprint: wanted 1, found 0"));
  EXPECT_EQ(exporter_->peer_count(), 0);
}

TEST_F(KvImporterTest, RefusesAnotherIncarnationAtTheSameSocket) {
  KvArenaDescriptor stale = exporter_->descriptor();
  stale.incarnation = "d1";
  const auto refused = importer_->Attach(stale, wanted_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.status().message(), "KV arena incarnation: wanted d1, found d0");
}

TEST_F(KvImporterTest, SaysUnavailableWhenTheOwnerIsGone) {
  const KvArenaDescriptor descriptor = exporter_->descriptor();
  exporter_.reset();
  EXPECT_EQ(importer_->Attach(descriptor, wanted_).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(KvImporterTest, ForgetsTheArenaWhenTheOwnerStops) {
  const auto arena = *importer_->Attach(exporter_->descriptor(), wanted_);
  EXPECT_FALSE(arena->owner_gone());
  std::thread stop([this] { exporter_.reset(); });
  EXPECT_EQ(owners_.Pop(), "d0");
  EXPECT_TRUE(arena->owner_gone());
  EXPECT_EQ(importer_->Find("d0"), nullptr);
  std::memset(arena->base(), 1, 64);  // A job that still holds it may write to its end.
  stop.join();
}

TEST_F(KvImporterTest, TellsTheOwnerOnlyAfterTheLastJobHasEnded) {
  auto job = *importer_->Attach(exporter_->descriptor(), wanted_);
  EXPECT_EQ(peers_.Pop(), "attached p0");
  importer_.reset();
  EXPECT_EQ(exporter_->peer_count(), 1);
  EXPECT_TRUE(peers_.Empty());
  job.reset();
  EXPECT_EQ(peers_.Pop(), "gone p0");
}

TEST_F(KvImporterTest, ServesSeveralOwnersAndImporters) {
  auto second_owner = MakeExporter("d1");
  auto second_importer = MakeImporter("p1");
  for (KvImporter* importer : {importer_.get(), second_importer.get()})
    for (KvExporter* exporter : {exporter_.get(), second_owner.get()})
      EXPECT_TRUE(importer->Attach(exporter->descriptor(), wanted_).ok());
  EXPECT_EQ(exporter_->peer_count(), 2);
  second_owner.reset();
  EXPECT_TRUE(importer_->Find("d0") != nullptr);
}

}  // namespace
}  // namespace baton
