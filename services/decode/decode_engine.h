// DecodeEngine: continuous batching over one DecodeRunner. One owner thread holds the arena, the
// batch and the runner: it takes closures from its mailbox, plans with PlanBatch, has prompts
// prefilled through the PrefillCoordinator, submits steps and publishes tokens. Prefills never hold
// up decode: they run elsewhere while steps go on, or as rows of its steps. Only with a SelfPrefill
// does decode pause for them.
//
// Submit, Cancel and OnPeerEvent may be called from any thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/kv/kv_arena.h"
#include "services/base/mailbox.h"
#include "services/base/worker_report.h"
#include "services/decode/decode_batch.h"
#include "services/decode/decode_metrics.h"
#include "services/decode/job_limits.h"
#include "services/decode/prefill_coordinator.h"
#include "services/decode/self_prefill.h"
#include "services/decode/sequence.h"

namespace baton {

struct DecodeEngineOptions {
  std::unique_ptr<DecodeRunner> runner;
  std::unique_ptr<KvArena> arena;
  PrefillClient* client = nullptr;  // Outlives the engine.
  // Set: prompts are computed here, between steps, and no prefill worker is asked.
  std::unique_ptr<SelfPrefill> self_prefill;
  KvArenaDescriptor descriptor;  // Complete, from the KvExporter.
  DecodeMetrics* metrics = nullptr;
  JobLimits limits;
  uint32_t max_waiting = 256;  // Requests waiting for pages or a row.
  uint32_t max_prefills = 4;   // Prefills at once.
  std::chrono::milliseconds prefill_timeout{120000};
  WorkerReport identity;  // Role, incarnation, fingerprint and device are filled in.
  std::function<void(const WorkerReport&)> on_report;  // Engine's thread; must be quick.
};

class DecodeEngine {
 public:
  explicit DecodeEngine(DecodeEngineOptions options);
  // Fails what is left with Unavailable and joins the thread.
  ~DecodeEngine();
  DecodeEngine(const DecodeEngine&) = delete;
  DecodeEngine& operator=(const DecodeEngine&) = delete;

  // InvalidArgument (field, wanted, found) for what can never be served, ResourceExhausted when
  // max_waiting requests wait, Unavailable when the device is lost. Otherwise the stream gets every
  // token and exactly one end. The stream's capacity must be job.max_tokens.
  absl::StatusOr<SequenceId> Submit(DecodeJob job, std::shared_ptr<TokenChannel> stream);
  // The stream ends with Cancelled within a step, unless it has ended. Unknown ids are ignored.
  void Cancel(SequenceId id);
  // From the KvExporter.
  void OnPeerEvent(const KvPeerEvent& event);

 private:
  void Run();
  void RunClosures();
  void Enqueue(SequenceId id, DecodeJob job, std::shared_ptr<TokenChannel> stream);
  void CancelNow(SequenceId id);
  void OnPrefilled(PrefillOutcome outcome);
  void TryNextWorker(Sequence& sequence, const absl::Status& status);
  void FinishPrefill(Sequence& sequence, const SampledToken& first);
  void StopPrefill(const Sequence& sequence);
  void PublishFirstToken(Sequence& sequence, const SampledToken& first, bool last);

  PrefillPath PathOf(const DecodeJob& job) const;
  BatchPlan Plan() const;
  void Admit(SequenceId id);
  void Join(const PlannedJoin& join);
  void StartPrefill(Sequence& sequence);
  void RunStep();
  void AwaitStep();
  void RunSelfPrefill();
  void PublishRow(const RowResult& result);
  // A row or a prompt whose logits were not finite fails alone.
  void FailWithoutToken(Sequence& sequence);
  void FailJoin(const Sequence& sequence, const absl::Status& status);
  void FailBatch(const absl::Status& status);
  void LoseDevice(const absl::Status& status);

  void EndSequence(SequenceId id, FinishReason finish, absl::Status status);
  void Account(const Sequence& sequence, FinishReason finish);
  void FailEverything(const absl::Status& status);
  void Report();

  DecodeEngineOptions options_;
  // Shared with calls of the PrefillClient, which may answer after the engine is gone.
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint32_t> waiting_count_{0};  // Accepted and not yet admitted.
  std::atomic<bool> device_lost_{false};

  // The engine thread's own from here on.
  PrefillCoordinator coordinator_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::deque<SequenceId> waiting_;
  std::deque<SequenceId> ready_;
  DecodeBatch batch_;
  WorkerReport reported_;
  std::thread thread_;
};

}  // namespace baton
