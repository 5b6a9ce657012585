#include "kernels/kv/kv_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/unit/kernels/kv/kv_test_layout.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr const char* kWriter = "aaaa";

class KvArenaTest : public testing::Test {
 protected:
  void Make(KvArenaOptions options) {
    if (options.incarnation.empty()) options.incarnation = "d0";
    auto arena = KvArena::Create(std::move(options));
    ASSERT_TRUE(arena.ok()) << arena.status();
    arena_ = std::move(*arena);
    arena_->AttachWriter(kWriter);
  }
  void SetUp() override { Make({.layout = TestLayout(9, 9)}); }
  void TearDown() override { EXPECT_EQ(arena_->CheckInvariants(), absl::OkStatus()); }

  KvSequencePages MustReserve(uint32_t full, uint32_t window) {
    auto pages = arena_->Reserve(full, window);
    EXPECT_TRUE(pages.ok()) << pages.status();
    return *pages;
  }
  KvLease MustLease(const KvSequencePages& pages, uint32_t write_end = 64) {
    auto lease =
        arena_->StartLease({.pages = pages, .writer_incarnation = kWriter, .write_end = write_end});
    EXPECT_TRUE(lease.ok()) << lease.status();
    return *lease;
  }
  // Lets `time` pass in steps that count in full.
  void Wait(milliseconds time) {
    for (; time.count() > 0; time -= milliseconds(100)) {
      now_ += milliseconds(100);
      arena_->ExpireQuarantine(now_);
    }
  }
  KvGroupStats Full() const { return arena_->Stats().groups[kFullGroup]; }

  std::unique_ptr<KvArena> arena_;
  KvTime now_{};
};

TEST_F(KvArenaTest, RefusesALayoutWithoutUsablePages) {
  auto arena = KvArena::Create({.layout = TestLayout(1, 9), .incarnation = "d0"});
  EXPECT_EQ(arena.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(arena.status().message()), HasSubstr("full group: wanted at least 2"));
  EXPECT_FALSE(KvArena::Create({.layout = TestLayout(9, 9)}).ok());
  EXPECT_FALSE(
      KvArena::Create(
          {.layout = TestLayout(9, 9), .incarnation = "d0", .gone_margin = milliseconds(-1)})
          .ok());
}

TEST_F(KvArenaTest, GivesEveryPageOnceAndNeverTheScratchPage) {
  const KvSequencePages pages = MustReserve(8, 8);
  for (const KvPages* group : {&pages.full, &pages.window}) {
    const std::set<PageId> ids(group->page_ids.begin(), group->page_ids.end());
    EXPECT_EQ(ids.size(), 8u);
    EXPECT_FALSE(ids.contains(kScratchPage));
  }
  EXPECT_EQ(Full().free, 0u);
}

TEST_F(KvArenaTest, GivesPagesThatFollowEachOther) {
  const KvSequencePages a = MustReserve(2, 1), b = MustReserve(2, 1), c = MustReserve(2, 1);
  EXPECT_THAT(c.full.page_ids, testing::ElementsAre(5, 6));
  arena_->Release(b);
  arena_->Release(a);
  EXPECT_THAT(MustReserve(2, 1).full.page_ids, testing::ElementsAre(7, 8));
  EXPECT_THAT(MustReserve(4, 1).full.page_ids, testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(KvArenaTest, ReservesAllOrNothing) {
  const KvSequencePages first = MustReserve(2, 6);
  const auto refused = arena_->Reserve(3, 3);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(), "window KV pages: wanted 3, free 2 of 8");
  EXPECT_EQ(Full().free, 6u);
  arena_->Release(first);
  EXPECT_TRUE(arena_->Reserve(3, 3).ok());
}

TEST_F(KvArenaTest, SaysWhenPagesCanNeverSuffice) {
  MustReserve(8, 0);
  const auto refused = arena_->Reserve(1, 9);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(KvArenaTest, GivesNoPagesOfAGroupWithoutLayers) {
  KvLayout layout = TestLayout(9, 0);
  layout.groups[kWindowGroup] = {.offset_bytes = layout.groups[kWindowGroup].offset_bytes};
  layout.layer_group = {kFullGroup};
  layout.layer_in_group = {0};
  Make({.layout = layout});
  const KvSequencePages pages = MustReserve(2, 7);
  EXPECT_EQ(pages.full.page_ids.size(), 2u);
  EXPECT_TRUE(pages.window.page_ids.empty());
  const KvLease lease = MustLease(pages, 128);
  EXPECT_EQ(arena_->SealLease(lease.lease_id), absl::OkStatus());
  arena_->ShrinkWindow(100, 128, const_cast<KvSequencePages*>(&pages));
  arena_->Release(pages);
}

TEST_F(KvArenaTest, BumpsTheGenerationWhenAPageIsFreed) {
  const KvSequencePages before = MustReserve(8, 0);
  arena_->Release(before);
  const KvSequencePages after = MustReserve(8, 0);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(before.full.generations[i], 0u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(after.full.generations[i], 1u);
}

TEST_F(KvArenaTest, DiesWhenPagesAreReleasedTwice) {
  const KvSequencePages pages = MustReserve(1, 1);
  arena_->Release(pages);
  EXPECT_DEATH(arena_->Release(pages), "check failed");
  MustReserve(1, 1);  // The same pages, a new generation.
  EXPECT_DEATH(arena_->Release(pages), "check failed");
}

TEST_F(KvArenaTest, SealedLeaseGivesThePagesBackToTheOwner) {
  const KvSequencePages pages = MustReserve(2, 2);
  const KvLease lease = MustLease(pages, 100);
  EXPECT_EQ(lease.lease_id, 1u);
  EXPECT_EQ(lease.arena_incarnation, "d0");
  EXPECT_EQ(lease.pages, pages);
  EXPECT_EQ(Full().reserved, 2u);
  EXPECT_DEATH(arena_->Release(pages), "check failed");
  EXPECT_EQ(arena_->SealLease(lease.lease_id), absl::OkStatus());
  EXPECT_EQ(Full().adopted, 2u);
  arena_->Release(pages);
  EXPECT_EQ(Full().free, 8u);
}

TEST_F(KvArenaTest, RefusesALeaseForAWriterThatIsNotAttached) {
  const KvSequencePages pages = MustReserve(1, 1);
  const auto refused =
      arena_->StartLease({.pages = pages, .writer_incarnation = "bbbb", .write_end = 1});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  arena_->WriterGone(kWriter, now_);
  EXPECT_FALSE(
      arena_->StartLease({.pages = pages, .writer_incarnation = kWriter, .write_end = 1}).ok());
  arena_->Release(pages);
}

TEST_F(KvArenaTest, RefusesALeaseWhoseRangeDoesNotFitItsPages) {
  const KvSequencePages pages = MustReserve(1, 2);
  KvLeaseRequest request{.pages = pages, .writer_incarnation = kWriter, .write_end = 65};
  EXPECT_EQ(arena_->StartLease(request).status().code(), absl::StatusCode::kInvalidArgument);
  request.write_end = 0;
  EXPECT_EQ(arena_->StartLease(request).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Full().adopted, 1u);
}

TEST_F(KvArenaTest, RevokedPagesWaitForTheConfirmation) {
  const KvLease lease = MustLease(MustReserve(8, 8));
  EXPECT_TRUE(arena_->RevokeLease(lease.lease_id, now_));
  EXPECT_EQ(Full().revoking, 8u);
  EXPECT_EQ(arena_->Reserve(1, 0).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(arena_->SealLease(lease.lease_id).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(arena_->RevokeLease(lease.lease_id, now_));  // Asking again is allowed.
  arena_->ConfirmRevoked(lease.lease_id);
  EXPECT_EQ(Full().free, 8u);
  arena_->ConfirmRevoked(lease.lease_id);  // A doubled answer changes nothing.
  EXPECT_FALSE(arena_->RevokeLease(lease.lease_id, now_));
  EXPECT_EQ(MustReserve(1, 0).full.generations[0], 1u);
}

TEST_F(KvArenaTest, IgnoresAConfirmationThatNobodyAskedFor) {
  const KvLease lease = MustLease(MustReserve(1, 1));
  arena_->ConfirmRevoked(lease.lease_id);
  EXPECT_EQ(Full().reserved, 1u);
}

TEST_F(KvArenaTest, UnconfirmedPagesStayQuarantinedWhileTheWriterLives) {
  const KvLease lease = MustLease(MustReserve(8, 8));
  arena_->RevokeLease(lease.lease_id, now_);
  Wait(milliseconds(1100));
  EXPECT_EQ(Full().quarantined, 8u);
  Wait(milliseconds(600000));
  EXPECT_EQ(Full().quarantined, 8u);
  EXPECT_TRUE(arena_->RevokeLease(lease.lease_id, now_));  // Still worth asking.
  arena_->ConfirmRevoked(lease.lease_id);
  EXPECT_EQ(Full().free, 8u);
}

TEST_F(KvArenaTest, SilentQuarantineFreesUnconfirmedPagesWhereItIsSet) {
  Make({.layout = TestLayout(9, 9), .silent_quarantine = milliseconds(5000)});
  const KvLease lease = MustLease(MustReserve(8, 8));
  arena_->RevokeLease(lease.lease_id, now_);
  Wait(milliseconds(5900));
  EXPECT_EQ(Full().quarantined, 8u);
  Wait(milliseconds(300));
  EXPECT_EQ(Full().free, 8u);
}

TEST_F(KvArenaTest, DeadWritersPagesComeBackAfterTheMargin) {
  const KvSequencePages sealed_pages = MustReserve(1, 1);
  EXPECT_EQ(arena_->SealLease(MustLease(sealed_pages).lease_id), absl::OkStatus());
  const KvLease running = MustLease(MustReserve(2, 2));
  const KvLease revoked = MustLease(MustReserve(3, 3));
  arena_->RevokeLease(revoked.lease_id, now_);
  EXPECT_THAT(arena_->WriterGone(kWriter, now_), testing::ElementsAre(running.lease_id));
  EXPECT_EQ(Full().quarantined, 5u);
  EXPECT_FALSE(arena_->RevokeLease(running.lease_id, now_));
  EXPECT_EQ(arena_->SealLease(running.lease_id).code(), absl::StatusCode::kAborted);
  Wait(milliseconds(1900));
  EXPECT_EQ(Full().quarantined, 5u);
  Wait(milliseconds(200));
  EXPECT_EQ(Full().quarantined, 0u);
  EXPECT_EQ(Full().adopted, 1u);  // What was sealed before is the owner's.
}

TEST_F(KvArenaTest, OtherWritersLeasesGoOn) {
  arena_->AttachWriter("bbbb");
  const KvLease lease = MustLease(MustReserve(1, 1));
  EXPECT_TRUE(arena_->WriterGone("bbbb", now_).empty());
  EXPECT_EQ(arena_->SealLease(lease.lease_id), absl::OkStatus());
}

TEST_F(KvArenaTest, AJumpingClockDoesNotShortenTheQuarantine) {
  MustLease(MustReserve(8, 8));
  arena_->WriterGone(kWriter, now_);
  EXPECT_EQ(arena_->ExpireQuarantine(now_ + std::chrono::hours(1)), 0u);
  EXPECT_EQ(arena_->ExpireQuarantine(now_), 0u);
  EXPECT_EQ(arena_->ExpireQuarantine(now_ + std::chrono::hours(2)), 0u);
  EXPECT_EQ(Full().quarantined, 8u);
}

// Where each logical page of [first, end) of a ring lies.
std::map<uint32_t, PageId> RingPages(const KvPages& ring, uint32_t first, uint32_t end) {
  std::map<uint32_t, PageId> pages;
  for (uint32_t l = first; l < end; ++l) pages[l] = ring.page_ids[l % ring.page_ids.size()];
  return pages;
}

TEST_F(KvArenaTest, ShrinkingTheRingKeepsEveryVisiblePage) {
  for (uint32_t window_keys : {1u, 63u, 64u, 65u, 100u, 128u, 400u}) {
    for (uint32_t token_count = 1; token_count < 3000; token_count += 37) {
      Make({.layout = TestLayout(60, 60, window_keys)});
      const uint32_t max_token_count = token_count + 500;
      const uint32_t before = WindowPagesFor(max_token_count, window_keys, 512);
      KvSequencePages pages = MustReserve(FullPagesFor(max_token_count), before);
      const uint32_t first = (token_count + 1 - std::min(token_count + 1, window_keys)) / 64;
      const uint32_t end = FullPagesFor(token_count);
      const auto live = RingPages(pages.window, first, end);
      arena_->ShrinkWindow(token_count, max_token_count, &pages);
      const uint32_t after = WindowPagesFor(max_token_count, window_keys, 1);
      ASSERT_EQ(pages.window.page_ids.size(), std::min(before, after));
      ASSERT_EQ(RingPages(pages.window, first, end), live)
          << "window " << window_keys << " tokens " << token_count;
      ASSERT_EQ(arena_->Stats().groups[kWindowGroup].adopted, pages.window.page_ids.size());
      ASSERT_EQ(arena_->CheckInvariants(), absl::OkStatus());
      arena_->Release(pages);
    }
  }
}

}  // namespace
}  // namespace baton
