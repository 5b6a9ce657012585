#include "kernels/kv/kv_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/kernels/kv/kv_test_layout.h"

namespace baton {
namespace {

using testing::HasSubstr;

class KvLeaseTest : public testing::Test {
 protected:
  KvLeaseTest() : arena_(DescribeArena(TestLayout(20, 20), {})) { arena_.incarnation = "d0"; }

  static KvLease Good() {
    return {.lease_id = 1,
            .arena_incarnation = "d0",
            .pages = {.full = {{1, 2, 3, 4, 5, 6}, {0, 0, 0, 0, 0, 0}},
                      .window = {{7, 8, 9, 10}, {3, 3, 3, 3}}},
            .write_begin = 0,
            .write_end = 384};
  }
  void ExpectRefused(const KvLease& lease, absl::StatusCode code, const std::string& text) const {
    const absl::Status status = ValidateLease(lease, arena_);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  KvArenaDescriptor arena_;
};

TEST_F(KvLeaseTest, AcceptsAGoodLease) {
  EXPECT_EQ(ValidateLease(Good(), arena_), absl::OkStatus());
}

TEST_F(KvLeaseTest, RefusesAnotherIncarnation) {
  KvLease lease = Good();
  lease.arena_incarnation = "d1";
  ExpectRefused(lease, absl::StatusCode::kFailedPrecondition, "wanted d0, found d1");
}

TEST_F(KvLeaseTest, RefusesWhatDoesNotFitTheArena) {
  const auto refused = [this](auto change, const std::string& text) {
    KvLease lease = Good();
    change(lease);
    ExpectRefused(lease, absl::StatusCode::kInvalidArgument, text);
  };
  refused([](KvLease& l) { l.lease_id = 0; }, "lease id");
  refused([](KvLease& l) { l.write_begin = 384; }, "found [384, 384)");
  refused([](KvLease& l) { l.write_end = 385; }, "wanted 7 for 385 tokens, found 6");
  refused([](KvLease& l) { l.pages.full.page_ids[2] = 20; }, "wanted ids below 20, found 20");
  refused([](KvLease& l) { l.pages.window.page_ids[0] = ~0u; }, "window pages");
  refused([](KvLease& l) { l.pages.window.page_ids[1] = kScratchPage; }, "scratch");
  refused([](KvLease& l) { l.pages.full.page_ids[5] = 1; }, "found 1 twice");
  refused([](KvLease& l) { l.pages.full.generations.pop_back(); }, "wanted 6 generations, found 5");
  refused([](KvLease& l) { l.pages.window = {{7, 8}, {0, 0}}; }, "wanted at least 3");
  refused([](KvLease& l) { l.pages.window = {}; }, "found 0");
}

TEST_F(KvLeaseTest, RefusesPagesOfAGroupWithoutLayers) {
  arena_.groups[kWindowGroup].layer_count = 0;
  ExpectRefused(Good(), absl::StatusCode::kInvalidArgument, "the group has no layers");
  KvLease lease = Good();
  lease.pages.window = {};
  EXPECT_EQ(ValidateLease(lease, arena_), absl::OkStatus());
  EXPECT_EQ(MaxChunkTokens(lease, arena_), 384u);
}

TEST_F(KvLeaseTest, MaxChunkIsTheLargestThatTheRingAllows) {
  KvLease lease = Good();
  for (uint32_t window_keys : {1u, 63u, 64u, 65u, 100u, 128u}) {
    arena_.window_keys = window_keys;
    for (uint32_t ring = 0; ring < 6; ++ring) {
      lease.pages.window.page_ids.resize(ring);
      const uint32_t chunk = MaxChunkTokens(lease, arena_);
      if (chunk > 0) {
        EXPECT_LE(WindowPagesFor(lease.write_end, window_keys, chunk), ring);
      }
      EXPECT_GT(WindowPagesFor(lease.write_end, window_keys, chunk + 1), ring);
    }
    lease.pages.window.page_ids.resize(6);
    EXPECT_EQ(MaxChunkTokens(lease, arena_), 384u);
  }
}

}  // namespace
}  // namespace baton
