#include "services/decode/prefill_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstBackoff(20);
constexpr milliseconds kLongestBackoff(1000);
// While a lease is being revoked or quarantined, the arena's clock must be fed this often.
constexpr milliseconds kArenaTick(100);

double Seconds(SteadyTime::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

PrefillCoordinator::PrefillCoordinator(PrefillCoordinatorOptions options)
    : options_(std::move(options)) {}

void PrefillCoordinator::Start(const Sequence& sequence, const std::string& address) {
  const SteadyTime now = std::chrono::steady_clock::now();
  Attempt attempt{.address = address, .pages = sequence.pages};
  attempt.call = {.request_id = sequence.job.request_id,
                  .prompt = sequence.job.prompt,
                  .sampling = sequence.job.sampling,
                  .timeout = options_.prefill_timeout};
  attempt.started = now;
  attempt.deadline = now + options_.prefill_timeout;
  const auto [it, inserted] = attempts_.emplace(sequence.id, std::move(attempt));
  BATON_CHECK(inserted);
  options_.metrics->handovers_in_flight.Set(attempt_count());
  Peer& peer = peers_[address];
  if (peer.state == PeerState::kAttached) {
    Call(sequence.id, it->second);
    return;
  }
  peer.waiting.push_back(sequence.id);
  if (peer.state == PeerState::kDetached) Attach(address);
}

void PrefillCoordinator::Attach(const std::string& address) {
  peers_[address].state = PeerState::kAttaching;
  options_.client->Attach(
      address, options_.descriptor,
      [this, post = options_.post, address](absl::StatusOr<AttachAnswer> answer) {
        post([this, address, answer = std::move(answer)]() mutable {
          OnAttached(address, std::move(answer));
        });
      });
}

void PrefillCoordinator::OnAttached(const std::string& address,
                                    absl::StatusOr<AttachAnswer> answer) {
  Peer& peer = peers_[address];
  const std::vector<SequenceId> waiting = std::exchange(peer.waiting, {});
  if (!answer.ok()) {
    peer.state = PeerState::kDetached;
    options_.metrics->attach_failures.Increment();
    spdlog::warn("msg=\"attach failed\" prefill={} error={}", address,
                 LogText(answer.status().ToString()));
  } else {
    peer.state = PeerState::kAttached;
    peer.incarnation = answer->incarnation;
    peer.report = {.peer = address,
                   .kind = options_.descriptor.transport,
                   .write_bytes_per_second = answer->write_bytes_per_second,
                   .read_bytes_per_second = answer->read_bytes_per_second};
    spdlog::info(
        "msg=\"attached\" prefill={} prefill_incarnation={} transport={} write_gbps={:.2f}",
        address, answer->incarnation, options_.descriptor.transport,
        answer->write_bytes_per_second / 1e9);
  }
  for (SequenceId id : waiting) {
    const auto attempt = attempts_.find(id);
    // Cancelled, or given up and tried elsewhere meanwhile.
    if (attempt == attempts_.end() || attempt->second.address != address) continue;
    if (answer.ok()) {
      Call(id, attempt->second);
    } else {
      Fail(attempt, answer.status());
    }
  }
}

void PrefillCoordinator::Call(SequenceId id, Attempt& attempt) {
  Peer& peer = peers_[attempt.address];
  absl::StatusOr<KvLease> lease =
      options_.arena->StartLease({.pages = attempt.pages,
                                  .writer_incarnation = peer.incarnation,
                                  .write_begin = 0,
                                  .write_end = static_cast<uint32_t>(attempt.call.prompt.size())});
  if (!lease.ok()) {
    // The worker has gone since it attached, and its end may have been noticed before its answer:
    // the next attempt must attach anew. Deferred: Start promises no outcome inside the call.
    peer.state = PeerState::kDetached;
    options_.post([this, id, status = lease.status()] {
      const auto it = attempts_.find(id);
      if (it != attempts_.end()) Fail(it, status);
    });
    return;
  }
  attempt.call.lease = *std::move(lease);
  attempt.call.prefill_incarnation = peer.incarnation;
  const uint64_t lease_id = attempt.call.lease.lease_id;
  attempt.call_id = options_.client->Prefill(
      attempt.address, attempt.call,
      [this, post = options_.post, id, lease_id](absl::StatusOr<PrefillAnswer> answer) {
        post([this, id, lease_id, answer = std::move(answer)]() mutable {
          OnAnswer(id, lease_id, std::move(answer));
        });
      });
}

void PrefillCoordinator::OnAnswer(SequenceId id, uint64_t lease_id,
                                  absl::StatusOr<PrefillAnswer> answer) {
  const auto it = attempts_.find(id);
  if (it == attempts_.end() || it->second.call.lease.lease_id != lease_id) {
    // The attempt was given up. An OK answer says that the writer is done all the same.
    if (answer.ok()) OnRevoked(lease_id, absl::OkStatus());
    return;
  }
  Attempt& attempt = it->second;
  if (answer.ok()) {
    const absl::Status sealed = options_.arena->SealLease(lease_id);
    if (!sealed.ok()) return Fail(it, sealed);
    options_.metrics->handover_seconds.Observe(
        Seconds(std::chrono::steady_clock::now() - attempt.started));
    options_.metrics->handover_bytes.Increment(static_cast<double>(answer->kv_bytes_written));
    PrefillOutcome outcome{.sequence_id = id, .answer = std::move(answer), .pages = attempt.pages};
    EndAttempt(it);
    options_.on_outcome(std::move(outcome));
    return;
  }
  if (!RetryAfterRestart(id, attempt, answer.status())) Fail(it, answer.status());
}

// NotFound is the worker's own word that it does not have the arena: it restarted. Nothing was
// written, so the same pages serve a second try after a new attach.
bool PrefillCoordinator::RetryAfterRestart(SequenceId id, Attempt& attempt,
                                           const absl::Status& status) {
  if (!absl::IsNotFound(status) || attempt.reattached) return false;
  const uint64_t lease_id = attempt.call.lease.lease_id;
  options_.arena->RevokeLease(lease_id, std::chrono::steady_clock::now());
  options_.arena->ConfirmRevoked(lease_id);
  absl::StatusOr<KvSequencePages> pages =
      options_.arena->Reserve(static_cast<uint32_t>(attempt.pages.full.page_ids.size()),
                              static_cast<uint32_t>(attempt.pages.window.page_ids.size()));
  // Not freed at once when the old process' end was noticed first: then the pages must rest.
  if (!pages.ok()) return false;
  attempt.pages = *std::move(pages);
  attempt.reattached = true;
  attempt.call_id = 0;
  attempt.call.lease = {};
  Peer& peer = peers_[attempt.address];
  if (peer.state == PeerState::kAttached) peer.state = PeerState::kDetached;
  peer.waiting.push_back(id);
  if (peer.state == PeerState::kDetached) Attach(attempt.address);
  return true;
}

void PrefillCoordinator::Fail(AttemptMap::iterator it, const absl::Status& status) {
  Attempt& attempt = it->second;
  options_.metrics->handover_failures.Increment();
  spdlog::warn("msg=\"hand-over failed\" request_id={} prefill={} lease={} error={}",
               attempt.call.request_id, attempt.address, attempt.call.lease.lease_id,
               LogText(status.ToString()));
  if (absl::IsNotFound(status)) peers_[attempt.address].state = PeerState::kDetached;
  Revoke(attempt, std::chrono::steady_clock::now());
  PrefillOutcome outcome{.sequence_id = it->first, .answer = status};
  EndAttempt(it);
  options_.on_outcome(std::move(outcome));
}

void PrefillCoordinator::EndAttempt(AttemptMap::iterator it) {
  attempts_.erase(it);
  options_.metrics->handovers_in_flight.Set(attempt_count());
}

void PrefillCoordinator::Cancel(SequenceId sequence_id) {
  const auto it = attempts_.find(sequence_id);
  if (it == attempts_.end()) return;
  if (it->second.call_id != 0) options_.client->CancelPrefill(it->second.call_id);
  Revoke(it->second, std::chrono::steady_clock::now());
  EndAttempt(it);
}

void PrefillCoordinator::Revoke(const Attempt& attempt, SteadyTime now) {
  const uint64_t lease_id = attempt.call.lease.lease_id;
  if (lease_id == 0) {
    options_.arena->Release(attempt.pages);  // Never lent.
    return;
  }
  if (!options_.arena->RevokeLease(lease_id, now)) return;
  options_.metrics->leases_revoked.Increment();
  Revocation& revocation = revocations_[lease_id];
  revocation = {.address = attempt.address,
                .writer = attempt.call.prefill_incarnation,
                .backoff = kFirstBackoff};
  AskToRevoke(lease_id, revocation);
}

void PrefillCoordinator::AskToRevoke(uint64_t lease_id, Revocation& revocation) {
  revocation.asking = true;
  const RevokeCall call{.arena_incarnation = options_.arena->incarnation(),
                        .prefill_incarnation = revocation.writer,
                        .lease_id = lease_id};
  options_.client->Revoke(revocation.address, call,
                          [this, post = options_.post, lease_id](absl::Status status) {
                            post([this, lease_id, status] { OnRevoked(lease_id, status); });
                          });
}

void PrefillCoordinator::OnRevoked(uint64_t lease_id, const absl::Status& status) {
  if (status.ok()) {
    options_.arena->ConfirmRevoked(lease_id);
    revocations_.erase(lease_id);
    return;
  }
  const auto it = revocations_.find(lease_id);
  if (it == revocations_.end()) return;  // The writer's end was noticed first.
  Revocation& revocation = it->second;
  revocation.asking = false;
  revocation.next_try = std::chrono::steady_clock::now() + revocation.backoff;
  revocation.backoff = std::min(revocation.backoff * 2, kLongestBackoff);
}

void PrefillCoordinator::OnPeerEvent(const KvPeerEvent& event, SteadyTime now) {
  if (event.kind == KvPeerEvent::Kind::kAttached) {
    options_.arena->AttachWriter(event.incarnation);
    return;
  }
  spdlog::warn("msg=\"prefill process gone\" prefill_incarnation={} peer_pid={}", event.incarnation,
               event.pid);
  options_.arena->WriterGone(event.incarnation, now);
  for (auto& [address, peer] : peers_) {
    if (peer.state == PeerState::kAttached && peer.incarnation == event.incarnation) {
      peer.state = PeerState::kDetached;
    }
  }
  std::erase_if(revocations_,
                [&](const auto& entry) { return entry.second.writer == event.incarnation; });
  std::vector<SequenceId> hit;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.call_id != 0 && attempt.call.prefill_incarnation == event.incarnation) {
      hit.push_back(id);
    }
  }
  for (SequenceId id : hit) {
    const auto it = attempts_.find(id);
    if (it == attempts_.end()) continue;
    options_.client->CancelPrefill(it->second.call_id);
    Fail(it,
         absl::UnavailableError(absl::StrCat("prefill worker ", it->second.address, " has died")));
  }
}

void PrefillCoordinator::Tick(SteadyTime now) {
  std::vector<SequenceId> late;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.deadline <= now) late.push_back(id);
  }
  for (SequenceId id : late) {
    const auto it = attempts_.find(id);
    if (it == attempts_.end()) continue;
    if (it->second.call_id != 0) options_.client->CancelPrefill(it->second.call_id);
    Fail(it, absl::UnavailableError(absl::StrCat("prefill worker ", it->second.address,
                                                 " took longer than ",
                                                 options_.prefill_timeout.count(), " ms")));
  }
  for (auto& [lease_id, revocation] : revocations_) {
    if (!revocation.asking && revocation.next_try <= now) AskToRevoke(lease_id, revocation);
  }
  options_.arena->ExpireQuarantine(now);
}

std::optional<SteadyTime> PrefillCoordinator::NextTick(SteadyTime now) const {
  std::optional<SteadyTime> next;
  const auto lent = std::count_if(attempts_.begin(), attempts_.end(),
                                  [](const auto& entry) { return entry.second.call_id != 0; });
  // Leases that no attempt waits for are being revoked or rest in quarantine.
  if (options_.arena->Stats().lease_count > static_cast<uint32_t>(lent)) next = now + kArenaTick;
  for (const auto& [id, attempt] : attempts_) {
    next = next ? std::min(*next, attempt.deadline) : attempt.deadline;
  }
  return next;
}

std::vector<TransportReport> PrefillCoordinator::Transports() const {
  std::vector<TransportReport> reports;
  for (const auto& [address, peer] : peers_) {
    if (peer.state == PeerState::kAttached) reports.push_back(peer.report);
  }
  return reports;
}

}  // namespace baton
