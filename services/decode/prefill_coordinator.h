// PrefillCoordinator: the decode side of the hand-over. Gives leases on reserved pages to prefill
// workers, takes the pages back when they answer, and revokes the leases of calls that failed, were
// cancelled or took too long. Attaches the arena to each prefill process once.
//
// Owner: the decode engine. Every method runs on the engine's thread; answers of the PrefillClient
// are brought there through `post`.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kv/kv_arena.h"
#include "kernels/kv/kv_exporter.h"
#include "services/base/worker_report.h"
#include "services/decode/decode_metrics.h"
#include "services/decode/prefill_client.h"
#include "services/decode/sequence.h"

namespace baton {

struct PrefillOutcome {
  SequenceId sequence_id = 0;
  // OK: `pages` are the sequence's alone again. Otherwise the arena keeps the pages until the
  // writer is known to be done, and another attempt needs new ones.
  absl::StatusOr<PrefillAnswer> answer;
  KvSequencePages pages;
};

struct PrefillCoordinatorOptions {
  KvArena* arena = nullptr;
  PrefillClient* client = nullptr;
  KvArenaDescriptor descriptor;
  std::chrono::milliseconds prefill_timeout{120000};
  DecodeMetrics* metrics = nullptr;
  // Runs a closure on the engine's thread; any thread.
  std::function<void(std::function<void()>)> post;
  std::function<void(PrefillOutcome)> on_outcome;
};

class PrefillCoordinator {
 public:
  explicit PrefillCoordinator(PrefillCoordinatorOptions options);

  // Takes over sequence.pages (kAdopted) and asks the worker at `address`. One outcome follows
  // unless Cancel comes first; never inside this call.
  void Start(const Sequence& sequence, const std::string& address);
  // No outcome will follow; the pages go to the arena once the writer is done with them.
  void Cancel(SequenceId sequence_id);

  void OnPeerEvent(const KvPeerEvent& event, SteadyTime now);
  // Enforces time limits, repeats revocations, lets quarantined pages go.
  void Tick(SteadyTime now);
  // When Tick is due at the latest; nullopt: no need.
  std::optional<SteadyTime> NextTick(SteadyTime now) const;

  uint32_t attempt_count() const { return static_cast<uint32_t>(attempts_.size()); }
  std::vector<TransportReport> Transports() const;

 private:
  enum class PeerState : uint8_t { kDetached, kAttaching, kAttached };
  struct Peer {
    PeerState state = PeerState::kDetached;
    std::string incarnation;
    TransportReport report;
    std::vector<SequenceId> waiting;  // Attempts that start once attached.
  };
  struct Attempt {
    std::string address;
    PrefillCall call;
    KvSequencePages pages;
    uint64_t call_id = 0;  // 0: waiting for the attach.
    SteadyTime deadline;
    SteadyTime started;
    bool reattached = false;  // One new attach per attempt, when the worker had restarted.
  };
  struct Revocation {
    std::string address;
    std::string writer;
    SteadyTime next_try;
    std::chrono::milliseconds backoff{0};
    bool asking = false;
  };
  using AttemptMap = std::map<SequenceId, Attempt>;

  void Attach(const std::string& address);
  void OnAttached(const std::string& address, absl::StatusOr<AttachAnswer> answer);
  void Call(SequenceId id, Attempt& attempt);
  void OnAnswer(SequenceId id, uint64_t lease_id, absl::StatusOr<PrefillAnswer> answer);
  void Fail(AttemptMap::iterator attempt, const absl::Status& status);
  void EndAttempt(AttemptMap::iterator attempt);
  void Revoke(const Attempt& attempt, SteadyTime now);
  void AskToRevoke(uint64_t lease_id, Revocation& revocation);
  void OnRevoked(uint64_t lease_id, const absl::Status& status);
  bool RetryAfterRestart(SequenceId id, Attempt& attempt, const absl::Status& status);

  const PrefillCoordinatorOptions options_;
  std::map<std::string, Peer> peers_;  // By address.
  AttemptMap attempts_;
  std::map<uint64_t, Revocation> revocations_;  // By lease id.
};

}  // namespace baton
