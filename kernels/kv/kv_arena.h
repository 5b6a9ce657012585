// KvArena: which page of a KV arena is whose. Pure bookkeeping of the arena's owner (the decode
// process): no device access, no I/O, no lock; one owner thread.
//
// States of a page:
//   kFree -> Reserve -> kAdopted -> Release -> kFree
//   kAdopted -> StartLease -> kReserved -> SealLease -> kAdopted
//   kReserved -> RevokeLease -> kRevoking -> ConfirmRevoked -> kFree
//   kRevoking -> no confirmation within revoke_timeout -> kQuarantined
//   kReserved, kRevoking -> WriterGone -> kQuarantined -> gone_margin -> kFree
// kAdopted pages are the owner's alone. kReserved, kRevoking and kQuarantined pages may still be
// written by the lease's writer: the arena never gives such a page to anyone else. What ends that
// is knowledge (the writer confirmed that it writes no more, or its process is gone), not hope;
// time alone ends it only where silent_quarantine says so.
//
// A page's generation rises by one whenever it becomes free (and wraps).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kv/free_pages.h"
#include "kernels/kv/kv_layout.h"
#include "kernels/kv/kv_lease.h"

namespace baton {

// Monotonic time as the caller reads it; only differences matter.
using KvTime = std::chrono::steady_clock::time_point;

enum class KvPageState : uint8_t { kFree, kReserved, kAdopted, kRevoking, kQuarantined };

struct KvArenaOptions {
  KvLayout layout;
  std::string incarnation;  // Stands in every lease.
  // How long a revoked lease waits for its confirmation before its pages count as quarantined.
  std::chrono::milliseconds revoke_timeout{1000};
  // How long pages rest after their writer's process is gone. 0 suits posix_shm (its mapping is
  // closed before its socket); on a GPU, work of a killed process may still drain.
  std::chrono::milliseconds gone_margin{2000};
  // If set: how long pages stay quarantined while their writer lives and confirms nothing. Sound
  // only if no writer can be suspended for longer; unset, they wait for the confirmation or the end
  // of the writer.
  std::optional<std::chrono::milliseconds> silent_quarantine;
};

struct KvLeaseRequest {
  KvSequencePages pages;           // From Reserve, kAdopted.
  std::string writer_incarnation;  // Attached.
  uint32_t write_begin = 0;
  uint32_t write_end = 0;
};

struct KvGroupStats {
  uint32_t page_count = 0;  // Without the scratch page; the sum of the states.
  uint32_t free = 0;
  uint32_t reserved = 0;
  uint32_t adopted = 0;
  uint32_t revoking = 0;
  uint32_t quarantined = 0;

  uint32_t used() const { return page_count - free; }
};

struct KvArenaStats {
  std::array<KvGroupStats, kKvGroupCount> groups;
  uint32_t lease_count = 0;  // Not yet sealed or freed.
  uint32_t writer_count = 0;
};

class KvArena {
 public:
  // InvalidArgument: no incarnation, a group that has layers and fewer than two pages (one is the
  // scratch page), or a negative duration.
  static absl::StatusOr<std::unique_ptr<KvArena>> Create(KvArenaOptions options);

  // All pages or none. A group without layers takes and gives none, whatever the count.
  // ResourceExhausted: too few are free now; the message says wanted, free and in all.
  // InvalidArgument: more than the arena will ever have.
  absl::StatusOr<KvSequencePages> Reserve(uint32_t full_count, uint32_t window_count);

  // Frees kAdopted pages. Anything else (a page twice, a stale generation) is a program error.
  void Release(const KvSequencePages& pages);

  // A writer's process maps the arena from now on (KvExporter's kAttached). Idempotent.
  void AttachWriter(std::string_view writer_incarnation);

  // The writer's process is gone or has unmapped the arena (KvExporter's kGone): nothing new is
  // written. Its leases end: their pages rest for gone_margin, then ExpireQuarantine frees them.
  // Returns the ids of the leases that were not revoked before, in rising order.
  std::vector<uint64_t> WriterGone(std::string_view writer_incarnation, KvTime now);

  // FailedPrecondition: the writer is not attached. InvalidArgument: the range is empty or does not
  // fit the pages; nothing changes. The pages must be kAdopted.
  absl::StatusOr<KvLease> StartLease(const KvLeaseRequest& request);

  // Prefill answered OK: the pages are the owner's alone again. Aborted: the lease was revoked or
  // its writer is gone; what it wrote must not be used (and an OK answer is then a confirmation:
  // call ConfirmRevoked).
  absl::Status SealLease(uint64_t lease_id);

  // The lease must end. True: the writer must be asked to confirm (RevokeLease RPC, repeated until
  // it answers or is gone). False: nothing to ask, the lease has ended or its writer is gone.
  bool RevokeLease(uint64_t lease_id, KvTime now);

  // The writer said that nothing of the lease will be written any more. Frees the pages of a
  // revoked lease, quarantined or not. Without effect on one that has ended.
  void ConfirmRevoked(uint64_t lease_id);

  // Moves pages on whose time has come; call at least every few hundred milliseconds. One call
  // counts at most kMaxClockStep of waiting, and none when `now` went back: time in which this
  // process did not run, or a jumping clock, says nothing about the writer. Returns pages freed.
  uint32_t ExpireQuarantine(KvTime now);
  static constexpr std::chrono::milliseconds kMaxClockStep{500};

  // After prefill of `token_count` tokens: replaces the window ring by one just large enough for
  // decode up to `max_token_count` tokens and frees the rest. Pages that hold visible keys keep
  // their bytes; only the table changes. The pages must be kAdopted and in no batch.
  void ShrinkWindow(uint32_t token_count, uint32_t max_token_count, KvSequencePages* pages);

  KvArenaStats Stats() const;
  KvPageState page_state(KvGroup group, PageId page) const {
    return groups_[group].pages[page].state;
  }
  uint32_t page_generation(KvGroup group, PageId page) const {
    return groups_[group].pages[page].generation;
  }
  const std::string& incarnation() const { return options_.incarnation; }
  const KvLayout& layout() const { return options_.layout; }

  // Internal, with the first contradiction found, or OK. Walks every page: for tests and the debug
  // RPC.
  absl::Status CheckInvariants() const;

 private:
  struct Page {
    KvPageState state = KvPageState::kFree;
    uint32_t generation = 0;
    uint64_t lease_id = 0;  // 0 unless reserved, revoking or quarantined.
  };
  struct Group {
    std::vector<Page> pages;  // [page_count], the scratch page included and never free.
    FreePages free;
  };
  struct Lease {
    KvSequencePages pages;
    std::string writer;
    KvPageState state = KvPageState::kReserved;
    bool writer_gone = false;
    std::chrono::nanoseconds since{0};  // On waited_, when `state` or writer_gone changed.
  };
  using LeaseMap = std::unordered_map<uint64_t, Lease>;

  explicit KvArena(KvArenaOptions options);
  void Advance(KvTime now);
  bool HoldsAll(const KvSequencePages& pages, KvPageState state, uint64_t lease_id) const;
  void SetState(const KvSequencePages& pages, KvPageState state, uint64_t lease_id);
  void SetLeaseState(uint64_t lease_id, Lease& lease, KvPageState state);
  void FreeAll(const KvSequencePages& pages);
  void FreePage(KvGroup group, PageId page);
  LeaseMap::iterator EndLease(LeaseMap::iterator lease);
  bool MayFree(const Lease& lease) const;
  absl::Status CheckGroup(KvGroup group) const;
  absl::Status CheckLeases() const;

  KvArenaOptions options_;
  KvArenaDescriptor descriptor_;  // For ValidateLease; incarnation and layout only.
  std::array<Group, kKvGroupCount> groups_;
  LeaseMap leases_;
  std::unordered_set<std::string> writers_;
  uint64_t last_lease_id_ = 0;
  std::optional<KvTime> last_now_;
  std::chrono::nanoseconds waited_{0};  // Time that counts: the sum of the clamped steps.
};

}  // namespace baton
