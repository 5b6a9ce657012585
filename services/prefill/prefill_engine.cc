#include "services/prefill/prefill_engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "services/prefill/chunk_packing.h"

namespace baton {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// K and V of `token_count` tokens in all layers.
uint64_t KvBytes(const KvLayout& layout, uint64_t token_count) {
  return layout.layer_group.size() * (layout.layer_bytes() / kPageTokens) * token_count;
}

}  // namespace

PrefillEngine::PrefillEngine(PrefillEngineOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

PrefillEngine::~PrefillEngine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  thread_.join();
}

absl::Status PrefillEngine::CheckJob(const PrefillJob& job) const {
  if (job.prompt.empty()) {
    return absl::InvalidArgumentError("token_ids: wanted at least 1, found 0");
  }
  for (size_t i = 0; i < job.prompt.size(); ++i) {
    if (job.prompt[i] < 0 || static_cast<uint32_t>(job.prompt[i]) >= options_.vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token_ids[", i, "]: wanted 0 to ", options_.vocab_size - 1, ", found ", job.prompt[i]));
    }
  }
  if (job.lease.write_end != job.prompt.size()) {
    return absl::InvalidArgumentError(absl::StrCat("lease.write_end: wanted ", job.prompt.size(),
                                                   " (the prompt), found ", job.lease.write_end));
  }
  return ValidateLease(job.lease, job.arena->descriptor());
}

absl::StatusOr<uint64_t> PrefillEngine::Submit(PrefillJob job) {
  absl::Status allowed = CheckJob(job);
  uint64_t id = 0;
  if (allowed.ok()) {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      allowed = absl::UnavailableError("the worker is stopping");
    } else if (waiting_.size() >= options_.max_waiting) {
      allowed = absl::ResourceExhaustedError(
          absl::StrCat("the queue is full: ", options_.max_waiting, " prompts wait"));
    } else {
      allowed = ledger_.Begin(job.lease.arena_incarnation, job.lease.lease_id);
    }
    if (allowed.ok()) {
      id = next_id_++;
      queued_prompt_tokens_ += job.prompt.size();
      auto entry = std::make_unique<Entry>();
      entry->id = id;
      entry->job = std::move(job);
      entry->arrived = Clock::now();
      waiting_.push_back(std::move(entry));
    }
  }
  if (!allowed.ok()) {
    options_.metrics->rejected.Increment();
    return allowed;
  }
  options_.metrics->requests.Increment();
  work_.notify_all();
  Report();
  return id;
}

void PrefillEngine::Cancel(uint64_t job_id) {
  {
    std::lock_guard lock(mutex_);
    for (Entry* entry : running_) {
      if (entry->id == job_id) entry->cancelled = true;
    }
    for (const auto& entry : waiting_) {
      if (entry->id == job_id) entry->cancelled = true;
    }
  }
  work_.notify_all();
}

void PrefillEngine::Revoke(const std::string& arena, uint64_t lease_id,
                           std::function<void()> confirmed) {
  const auto matches = [&](const Entry& entry) {
    return entry.job.lease.arena_incarnation == arena && entry.job.lease.lease_id == lease_id;
  };
  {
    std::lock_guard lock(mutex_);
    if (!ledger_.revoked(arena, lease_id)) options_.metrics->leases_revoked.Increment();
    if (!ledger_.Revoke(arena, lease_id)) {
      // Live: it runs, or it waits and is answered without a write.
      Entry* live = nullptr;
      for (Entry* entry : running_) {
        if (matches(*entry)) live = entry;
      }
      for (const auto& entry : waiting_) {
        if (matches(*entry)) live = entry.get();
      }
      if (live != nullptr) {
        live->cancelled = true;
        live->on_revoked.push_back(std::move(confirmed));
        confirmed = nullptr;
      }
    }
  }
  work_.notify_all();
  if (confirmed) confirmed();
}

void PrefillEngine::ForgetArena(const std::string& arena) {
  std::lock_guard lock(mutex_);
  ledger_.Forget(arena);
}

void PrefillEngine::Run() {
  while (true) {
    std::unique_ptr<Entry> entry;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      // A cancelled job is answered first: somebody waits for the confirmation.
      auto next = std::find_if(waiting_.begin(), waiting_.end(),
                               [](const auto& candidate) { return candidate->cancelled; });
      if (next == waiting_.end()) next = waiting_.begin();
      entry = std::move(*next);
      waiting_.erase(next);
      running_ = {entry.get()};
    }
    Report();
    std::vector<std::unique_ptr<Entry>> riders;
    const absl::Status status = Compute(*entry, riders);
    riders.insert(riders.begin(), std::move(entry));
    for (auto& done : riders) {
      absl::StatusOr<PrefillResult> result = status.ok() ? MakeResult(*done) : status;
      Finish(std::move(done), std::move(result));
    }
    Report();
  }
}

void PrefillEngine::Finish(std::unique_ptr<Entry> entry, absl::StatusOr<PrefillResult> result) {
  std::vector<std::function<void()>> on_revoked;
  {
    std::lock_guard lock(mutex_);
    ledger_.End(entry->job.lease.arena_incarnation, entry->job.lease.lease_id);
    queued_prompt_tokens_ -= entry->job.prompt.size();
    std::erase(running_, entry.get());
    on_revoked = std::move(entry->on_revoked);
  }
  options_.runner->EndSequence(entry->id);
  entry->job.arena.reset();  // Before the answer: an owner that is gone is unmapped at once.
  if (!result.ok()) {
    const bool aborted = absl::IsAborted(result.status()) || absl::IsCancelled(result.status());
    (aborted ? options_.metrics->aborted : options_.metrics->failed).Increment();
  }
  spdlog::info("msg=\"prefill done\" request_id={} code={} prompt_tokens={} lease={}",
               entry->job.request_id, absl::StatusCodeToString(result.status().code()),
               entry->job.prompt.size(), entry->job.lease.lease_id);
  entry->job.done(std::move(result));
  for (const auto& confirmed : on_revoked) confirmed();
}

absl::Status PrefillEngine::MayGoOn(const Entry& entry) {
  const PrefillJob& job = entry.job;
  std::lock_guard lock(mutex_);
  if (ledger_.revoked(job.lease.arena_incarnation, job.lease.lease_id)) {
    return absl::AbortedError(absl::StrCat("lease ", job.lease.lease_id, " was revoked"));
  }
  if (entry.cancelled) return absl::CancelledError("the call was cancelled");
  if (stopping_) return absl::UnavailableError("the worker is stopping");
  if (job.arena->owner_gone()) return absl::AbortedError("the arena's owner is gone");
  return absl::OkStatus();
}

void PrefillEngine::StartPrompt(Entry& entry) const {
  entry.started = Clock::now();
  entry.begin = static_cast<int>(entry.job.lease.write_begin);
  entry.pages = entry.job.lease.pages.Table();
}

int PrefillEngine::NextChunkTokens(const Entry& entry) const {
  const PrefillJob& job = entry.job;
  const auto longest = static_cast<int>(
      std::min<uint32_t>(MaxChunkTokens(job.lease, job.arena->descriptor()), job.lease.write_end));
  return std::min({options_.runner->max_chunk_tokens(), longest,
                   static_cast<int>(job.prompt.size()) - entry.begin});
}

PrefillChunk PrefillEngine::NextChunk(const Entry& entry) const {
  const PrefillJob& job = entry.job;
  const auto begin = static_cast<size_t>(entry.begin);
  const auto count = static_cast<size_t>(NextChunkTokens(entry));
  return {.sequence_id = entry.id,
          .tokens = absl::MakeConstSpan(job.prompt).subspan(begin, count),
          .begin = entry.begin,
          .pages = &entry.pages,
          .kv_base = job.arena->base(),
          .layout = &job.arena->layout(),
          .on_peer_device = job.arena->on_peer_device(),
          .sample = begin + count == job.prompt.size(),
          .sampling = job.sampling};
}

// Whole prompts only: a long one would hold up the head's answer for no gain.
std::vector<std::unique_ptr<PrefillEngine::Entry>> PrefillEngine::TakeRiders(const Entry& head) {
  std::vector<std::unique_ptr<Entry>> riders;
  const PackLimits limits{.tokens = std::min(static_cast<int>(options_.pack_tokens),
                                             options_.runner->max_chunk_tokens()),
                          .prompts = options_.runner->max_packed_prompts()};
  if (limits.prompts <= 1 || limits.tokens <= NextChunkTokens(head)) return riders;
  std::lock_guard lock(mutex_);
  std::vector<PackCandidate> candidates;
  for (auto& entry : waiting_) {
    StartPrompt(*entry);
    const int left = static_cast<int>(entry->job.prompt.size()) - entry->begin;
    candidates.push_back({.stretch = {.begin = entry->begin, .tokens = left},
                          .may_ride = !entry->cancelled && entry->job.arena == head.job.arena &&
                                      NextChunkTokens(*entry) == left});
  }
  const auto chosen =
      ChooseRiders({.begin = head.begin, .tokens = NextChunkTokens(head)}, candidates, limits,
                   [this](absl::Span<const PromptStretch> chunk) {
                     return options_.runner->EstimateChunkSeconds(chunk);
                   });
  for (const size_t index : chosen) {
    running_.push_back(waiting_[index].get());
    riders.push_back(std::move(waiting_[index]));
  }
  std::erase(waiting_, nullptr);
  return riders;
}

absl::Status PrefillEngine::RunChunk(const std::vector<Entry*>& entries) {
  std::vector<PrefillChunk> chunks;
  for (const Entry* entry : entries) chunks.push_back(NextChunk(*entry));
  const Clock::time_point started = Clock::now();
  absl::StatusOr<std::vector<std::optional<SampledToken>>> sampled =
      options_.runner->RunChunks(chunks);
  CountTransfer();
  if (!sampled.ok()) return sampled.status();
  options_.metrics->chunks.Increment();
  options_.metrics->packed_prompts.Increment(static_cast<double>(entries.size() - 1));
  options_.metrics->chunk_seconds.Observe(Seconds(Clock::now() - started));
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i]->first = (*sampled)[i];
    entries[i]->begin += static_cast<int>(chunks[i].tokens.size());
  }
  return absl::OkStatus();
}

// All of the head's chunks; the riders of its last one are done as well.
absl::Status PrefillEngine::Compute(Entry& head, std::vector<std::unique_ptr<Entry>>& riders) {
  StartPrompt(head);
  const auto end = static_cast<int>(head.job.prompt.size());
  while (head.begin < end) {
    if (options_.chunk_delay.count() > 0) std::this_thread::sleep_for(options_.chunk_delay);
    BATON_RETURN_IF_ERROR(MayGoOn(head));
    std::vector<Entry*> entries = {&head};
    if (head.begin + NextChunkTokens(head) == end) {
      riders = TakeRiders(head);
      for (const auto& rider : riders) entries.push_back(rider.get());
    }
    BATON_RETURN_IF_ERROR(RunChunk(entries));
  }
  return absl::OkStatus();
}

absl::StatusOr<PrefillResult> PrefillEngine::MakeResult(const Entry& entry) {
  // A lease that was revoked during the last chunk is not worth an OK: its owner has given it up.
  if (absl::Status status = MayGoOn(entry); absl::IsAborted(status)) return status;
  if (!entry.first) return absl::InternalError("the runner sampled no first token");
  const PrefillJob& job = entry.job;
  const Clock::time_point ended = Clock::now();
  const uint64_t written = KvBytes(job.arena->layout(), job.prompt.size() - job.lease.write_begin);
  options_.metrics->prompt_tokens.Increment(static_cast<double>(job.prompt.size()));
  options_.metrics->queue_seconds.Observe(Seconds(entry.started - entry.arrived));
  options_.metrics->compute_seconds.Observe(Seconds(ended - entry.started));
  options_.metrics->kv_bytes.Increment(static_cast<double>(written));
  return PrefillResult{.first = *entry.first,
                       .queue_ms = Seconds(entry.started - entry.arrived) * 1e3,
                       .compute_ms = Seconds(ended - entry.started) * 1e3,
                       .kv_bytes_written = written};
}

void PrefillEngine::CountTransfer() {
  const KvTransferStats now = options_.runner->kv_transfer();
  const auto moved = [](uint64_t after, uint64_t before) {
    return static_cast<double>(after - before);
  };
  PrefillMetrics& metrics = *options_.metrics;
  metrics.kv_pushed_bytes.Increment(moved(now.pushed_bytes, transfer_.pushed_bytes));
  metrics.kv_pulled_bytes.Increment(moved(now.pulled_bytes, transfer_.pulled_bytes));
  metrics.kv_push_copies.Increment(moved(now.push_copies, transfer_.push_copies));
  metrics.kv_scattered_bytes.Increment(moved(now.scattered_bytes, transfer_.scattered_bytes));
  metrics.kv_push_seconds.Increment(now.push_seconds - transfer_.push_seconds);
  if (now.pushed_bytes > transfer_.pushed_bytes) {
    metrics.kv_exposed_seconds.Observe(now.exposed_seconds - transfer_.exposed_seconds);
  }
  transfer_ = now;
}

void PrefillEngine::Report() {
  // Until it is handed on: of two threads that report, the one that knows more must not be first.
  std::lock_guard reporting(report_mutex_);
  WorkerReport report = options_.identity;
  report.ready = true;
  report.max_rows = 1;
  report.max_waiting = options_.max_waiting;
  {
    std::lock_guard lock(mutex_);
    report.running = static_cast<uint32_t>(running_.size());
    report.waiting = static_cast<uint32_t>(waiting_.size());
    report.queued_prompt_tokens = queued_prompt_tokens_;
  }
  options_.metrics->running.Set(report.running);
  options_.metrics->waiting.Set(report.waiting);
  if (options_.on_report) options_.on_report(report);
}

}  // namespace baton
