#include "services/prefill/lease_ledger.h"

#include "absl/strings/str_cat.h"

namespace baton {

absl::Status LeaseLedger::Begin(const std::string& arena, uint64_t lease_id) {
  if (revoked(arena, lease_id)) {
    return absl::AbortedError(absl::StrCat("lease ", lease_id, " was revoked"));
  }
  if (!arenas_[arena].live.insert(lease_id).second) {
    return absl::AlreadyExistsError(absl::StrCat("lease ", lease_id, " is being written already"));
  }
  return absl::OkStatus();
}

void LeaseLedger::End(const std::string& arena, uint64_t lease_id) {
  const auto it = arenas_.find(arena);
  if (it != arenas_.end()) it->second.live.erase(lease_id);
}

bool LeaseLedger::Revoke(const std::string& arena, uint64_t lease_id) {
  Arena& entry = arenas_[arena];
  if (lease_id > entry.revoked_up_to) entry.revoked.insert(lease_id);
  while (entry.revoked.size() > kMaxRevoked) {
    entry.revoked_up_to = *entry.revoked.begin();
    entry.revoked.erase(entry.revoked.begin());
  }
  return !entry.live.contains(lease_id);
}

bool LeaseLedger::revoked(const std::string& arena, uint64_t lease_id) const {
  const auto it = arenas_.find(arena);
  if (it == arenas_.end()) return false;
  return lease_id <= it->second.revoked_up_to || it->second.revoked.contains(lease_id);
}

void LeaseLedger::Forget(const std::string& arena) {
  const auto it = arenas_.find(arena);
  if (it == arenas_.end()) return;
  if (it->second.live.empty()) {
    arenas_.erase(it);
  } else {
    it->second.revoked.clear();
  }
}

}  // namespace baton
