#include "services/prefill/lease_ledger.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(LeaseLedgerTest, ALeaseIsLiveFromBeginToEnd) {
  LeaseLedger ledger;
  ASSERT_TRUE(ledger.Begin("a", 1).ok());
  EXPECT_EQ(ledger.Begin("a", 1).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(ledger.Revoke("a", 1));
  ledger.End("a", 1);
  EXPECT_TRUE(ledger.Revoke("a", 1));
}

TEST(LeaseLedgerTest, ACallAfterItsRevocationIsRefused) {
  LeaseLedger ledger;
  EXPECT_TRUE(ledger.Revoke("a", 5));
  EXPECT_EQ(ledger.Begin("a", 5).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(ledger.Begin("a", 6).ok());
  EXPECT_TRUE(ledger.Begin("b", 5).ok()) << "another arena's leases are its own";
}

TEST(LeaseLedgerTest, ForgottenRevocationsStayRevoked) {
  LeaseLedger ledger;
  const uint64_t count = LeaseLedger::kMaxRevoked + 10;
  for (uint64_t id = 1; id <= count; ++id) ledger.Revoke("a", id);
  for (uint64_t id = 1; id <= count; ++id) EXPECT_TRUE(ledger.revoked("a", id)) << id;
  EXPECT_FALSE(ledger.revoked("a", count + 1));
}

TEST(LeaseLedgerTest, ForgettingAnArenaKeepsLiveLeases) {
  LeaseLedger ledger;
  ASSERT_TRUE(ledger.Begin("a", 1).ok());
  ledger.Revoke("a", 2);
  ledger.Forget("a");
  EXPECT_FALSE(ledger.Revoke("a", 1));
  EXPECT_FALSE(ledger.revoked("a", 2));
}

}  // namespace
}  // namespace baton
