// LeaseLedger: which leases of other processes' arenas may be written here now, and which never
// again. A revoked lease stays revoked: a Prefill call that arrives after its revocation is
// refused. Pure bookkeeping, not thread-safe; the prefill engine guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"

namespace baton {

class LeaseLedger {
 public:
  // Revoked ids that are remembered one by one for each arena. Beyond it the lowest are forgotten
  // and every id up to them counts as revoked: ids rise, so only calls that are that late are hit.
  static constexpr size_t kMaxRevoked = 4096;

  // A call that wants to write. Aborted: the lease was revoked. AlreadyExists: it is live.
  absl::Status Begin(const std::string& arena, uint64_t lease_id);
  // The call is over: nothing of it will be written any more.
  void End(const std::string& arena, uint64_t lease_id);

  // True: nothing of the lease is or will be written. False: it is live; End must come first.
  bool Revoke(const std::string& arena, uint64_t lease_id);
  bool revoked(const std::string& arena, uint64_t lease_id) const;

  // The arena's owner is gone. Live leases stay live until End.
  void Forget(const std::string& arena);

 private:
  struct Arena {
    std::set<uint64_t> live;
    std::set<uint64_t> revoked;
    uint64_t revoked_up_to = 0;
  };

  std::map<std::string, Arena> arenas_;  // By incarnation.
};

}  // namespace baton
