// PrefillEngine: computes prompts into leased pages, one after the other in order of arrival; where
// the runner packs prompts, others ride in the last chunk of the one before them if chunk_packing.h
// says so. One owner thread runs the PrefillRunner; between chunks it looks whether the lease was
// revoked or the call cancelled. It keeps nothing of a prompt once it has answered.
//
// Submit, Revoke, Cancel and ForgetArena may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/kv/kv_importer.h"
#include "kernels/kv/kv_lease.h"
#include "services/base/worker_report.h"
#include "services/prefill/lease_ledger.h"
#include "services/prefill/prefill_metrics.h"

namespace baton {

struct PrefillResult {
  SampledToken first;
  double queue_ms = 0;
  double compute_ms = 0;
  uint64_t kv_bytes_written = 0;
};

struct PrefillJob {
  std::string request_id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  KvLease lease;
  // Keeps the mapping for as long as the job may write.
  std::shared_ptr<const KvImportedArena> arena;
  // Runs once, on the engine's thread: all writes are done by then, whatever the result.
  std::function<void(absl::StatusOr<PrefillResult>)> done;
};

struct PrefillEngineOptions {
  std::unique_ptr<PrefillRunner> runner;
  PrefillMetrics* metrics = nullptr;
  uint32_t vocab_size = 0;
  uint32_t max_waiting = 256;
  // Waiting prompts of the same arena may join another's last chunk while it stays within this many
  // tokens; 0: none does.
  uint32_t pack_tokens = 0;
  // Test hook: sleeps before each chunk, so that a test can act in the middle of a prompt.
  std::chrono::milliseconds chunk_delay{0};
  WorkerReport identity;
  std::function<void(const WorkerReport&)> on_report;  // Any thread; must be quick.
};

class PrefillEngine {
 public:
  explicit PrefillEngine(PrefillEngineOptions options);
  // Fails what is left with Unavailable, after the chunk that runs.
  ~PrefillEngine();
  PrefillEngine(const PrefillEngine&) = delete;
  PrefillEngine& operator=(const PrefillEngine&) = delete;

  // InvalidArgument or FailedPrecondition for a prompt or lease that cannot be served, Aborted for
  // a revoked lease, ResourceExhausted when the queue is full; then job.done does not run.
  // Otherwise the id for Cancel.
  absl::StatusOr<uint64_t> Submit(PrefillJob job);
  // The caller is gone: the job ends before its next chunk. Unknown ids are ignored.
  void Cancel(uint64_t job_id);
  // `confirmed` runs once when nothing of the lease is written any more: at once for a lease that
  // waits or is unknown, else after the chunk that runs.
  void Revoke(const std::string& arena, uint64_t lease_id, std::function<void()> confirmed);
  void ForgetArena(const std::string& arena);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    uint64_t id = 0;
    PrefillJob job;
    Clock::time_point arrived;
    Clock::time_point started;
    int begin = 0;  // Tokens done.
    KvPageTable pages;
    std::optional<SampledToken> first;
    bool cancelled = false;                         // Guarded by mutex_.
    std::vector<std::function<void()>> on_revoked;  // Guarded by mutex_.
  };

  absl::Status CheckJob(const PrefillJob& job) const;
  void Run();
  void Finish(std::unique_ptr<Entry> entry, absl::StatusOr<PrefillResult> result);
  absl::Status Compute(Entry& head, std::vector<std::unique_ptr<Entry>>& riders);
  void StartPrompt(Entry& entry) const;
  int NextChunkTokens(const Entry& entry) const;
  PrefillChunk NextChunk(const Entry& entry) const;
  std::vector<std::unique_ptr<Entry>> TakeRiders(const Entry& head);
  absl::Status RunChunk(const std::vector<Entry*>& entries);
  absl::StatusOr<PrefillResult> MakeResult(const Entry& entry);
  absl::Status MayGoOn(const Entry& entry);
  void CountTransfer();
  void Report();

  PrefillEngineOptions options_;
  KvTransferStats transfer_;  // As counted so far; the engine's thread.

  std::mutex report_mutex_;  // Taken before mutex_; guards the order of reports.
  std::mutex mutex_;         // Guards all below.
  std::condition_variable work_;
  std::deque<std::unique_ptr<Entry>> waiting_;
  std::vector<Entry*> running_;
  LeaseLedger ledger_;
  uint64_t next_id_ = 1;
  uint64_t queued_prompt_tokens_ = 0;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace baton
