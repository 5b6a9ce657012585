#include "services/decode/decode_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"

namespace baton {
DecodeEngine::DecodeEngine(DecodeEngineOptions options)
    : options_(std::move(options)),
      coordinator_(
          {.arena = options_.arena.get(),
           .client = options_.client,
           .descriptor = options_.descriptor,
           .prefill_timeout = options_.prefill_timeout,
           .metrics = options_.metrics,
           .post = [mailbox = mailbox_](Mailbox::Closure c) { mailbox->Post(std::move(c)); },
           .on_outcome = [this](PrefillOutcome o) { OnPrefilled(std::move(o)); }}),
      batch_(std::move(options_.runner), options_.arena.get(), options_.metrics),
      thread_([this] { Run(); }) {}

DecodeEngine::~DecodeEngine() {
  mailbox_->Close();
  thread_.join();
}

absl::StatusOr<SequenceId> DecodeEngine::Submit(DecodeJob job,
                                                std::shared_ptr<TokenChannel> stream) {
  absl::Status allowed = CheckJob(job, options_.limits);
  if (allowed.ok() && device_lost_) {
    allowed = absl::UnavailableError("the device is lost; the worker must be restarted");
  }
  if (allowed.ok() && job.prefill_workers.empty() && PathOf(job) == PrefillPath::kWorker) {
    allowed = absl::UnavailableError("no prefill worker was named");
  }
  if (allowed.ok() && waiting_count_.fetch_add(1) >= options_.max_waiting) {
    waiting_count_.fetch_sub(1);
    allowed = absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", options_.max_waiting, " requests wait"));
  }
  if (!allowed.ok()) {
    options_.metrics->rejected.Increment();
    return allowed;
  }
  const SequenceId id = next_id_.fetch_add(1);
  const bool posted = mailbox_->Post([this, id, job = std::move(job), stream]() mutable {
    Enqueue(id, std::move(job), std::move(stream));
  });
  if (!posted) return absl::UnavailableError("the worker is stopping");
  options_.metrics->requests.Increment();
  return id;
}

void DecodeEngine::Cancel(SequenceId id) {
  mailbox_->Post([this, id] { CancelNow(id); });
}

void DecodeEngine::OnPeerEvent(const KvPeerEvent& event) {
  mailbox_->Post([this, event] { coordinator_.OnPeerEvent(event, SteadyNow()); });
}

void DecodeEngine::Enqueue(SequenceId id, DecodeJob job, std::shared_ptr<TokenChannel> stream) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->path = PathOf(job);
  sequence->full_pages = FullPagesOf(job);
  sequence->window_pages = WindowPagesOf(job, options_.limits);
  sequence->job = std::move(job);
  sequence->stream = std::move(stream);
  sequence->arrived = SteadyNow();
  sequences_.emplace(id, std::move(sequence));
  waiting_.push_back(id);
  // Submit may have looked a moment before the device was lost.
  if (device_lost_) {
    EndSequence(id, FinishReason::kError, absl::UnavailableError("the device is lost"));
  }
}

void DecodeEngine::Run() {
  Report();
  while (!mailbox_->closed()) {
    RunClosures();
    coordinator_.Tick(SteadyNow());
    for (SequenceId id : Plan().admit) Admit(id);
    // Anew: what was admitted to a row needs no step between.
    for (const PlannedJoin& join : Plan().join) Join(join);
    RunStep();
    RunSelfPrefill();
    Report();
  }
  for (const auto& closure : mailbox_->Drain()) closure();  // Requests may be among them.
  FailEverything(absl::UnavailableError("the worker is stopping"));
}

// Sleeps only when there is nothing to compute and nobody to admit: what the last step freed may be
// what a waiting sequence waited for, and no closure tells of it.
void DecodeEngine::RunClosures() {
  const bool prefilling = options_.self_prefill && options_.self_prefill->head() != nullptr;
  const bool busy =
      !device_lost_ && (batch_.busy() || !ready_.empty() || prefilling || !Plan().admit.empty());
  const auto closures =
      busy ? mailbox_->Drain() : mailbox_->WaitAndDrain(coordinator_.NextTick(SteadyNow()));
  for (const auto& closure : closures) closure();
}

BatchPlan DecodeEngine::Plan() const {
  if (waiting_.empty() && ready_.empty()) return {};
  std::vector<WaitingSequence> waiting;
  // More than could be admitted now, whatever is free.
  const size_t limit = batch_.max_rows() + options_.max_prefills;
  for (size_t i = 0; i < std::min(limit, waiting_.size()); ++i) {
    const Sequence& sequence = *sequences_.at(waiting_[i]);
    waiting.push_back({.id = sequence.id,
                       .full_pages = sequence.full_pages,
                       .window_pages = sequence.window_pages,
                       .needs_row = sequence.needs_row(),
                       .needs_prefill = sequence.path != PrefillPath::kInline});
  }
  const std::vector<SequenceId> ready(ready_.begin(), ready_.end());
  const std::vector<int> free_slots = batch_.FreeSlots();
  uint32_t prefilling_rows = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state == SequenceState::kPrefilling && sequence->needs_row()) ++prefilling_rows;
  }
  const size_t here = options_.self_prefill ? options_.self_prefill->count() : 0;
  const KvArenaStats stats = options_.arena->Stats();
  const auto free_pages = [&](KvGroup group) {
    const bool used = options_.arena->layout().groups[group].layer_count > 0;
    return used ? stats.groups[group].free : UINT32_MAX;
  };
  return PlanBatch({.waiting = waiting,
                    .ready = ready,
                    .free_slots = free_slots,
                    .free_full_pages = free_pages(kFullGroup),
                    .free_window_pages = free_pages(kWindowGroup),
                    .prefilling_count = coordinator_.attempt_count() + static_cast<uint32_t>(here),
                    .prefilling_row_count = prefilling_rows,
                    .running_count = batch_.max_rows() - static_cast<uint32_t>(free_slots.size())},
                   {.max_rows = batch_.max_rows(), .max_prefills = options_.max_prefills});
}

void DecodeEngine::Admit(SequenceId id) {
  BATON_CHECK(!waiting_.empty() && waiting_.front() == id);
  Sequence& sequence = *sequences_.at(id);
  absl::StatusOr<KvSequencePages> pages =
      options_.arena->Reserve(sequence.full_pages, sequence.window_pages);
  if (!pages.ok()) return;  // It stays at the head of the queue.
  waiting_.pop_front();
  waiting_count_.fetch_sub(1);
  sequence.pages = *std::move(pages);
  if (sequence.next_worker == 0) {
    sequence.prefill_started = SteadyNow();
    options_.metrics->queue_seconds.Observe(
        ToMilliseconds(sequence.prefill_started - sequence.arrived) / 1e3);
  }
  StartPrefill(sequence);
}

void DecodeEngine::Join(const PlannedJoin& join) {
  BATON_CHECK(!ready_.empty() && ready_.front() == join.id);
  ready_.pop_front();
  Sequence& sequence = *sequences_.at(join.id);
  sequence.state = SequenceState::kRunning;
  sequence.slot = join.slot;
  RowJoin row{.slot = join.slot,
              .row_id = join.id,
              .token = sequence.first_token,
              .position = static_cast<int>(sequence.job.prompt.size()),
              .max_new_tokens = static_cast<int>(sequence.job.max_tokens - 1),
              .pages = sequence.pages.Table(),
              .sampling = sequence.job.sampling,
              .stop_ids = sequence.job.stop_ids};
  std::vector<TokenId> fed;
  if (sequence.path == PrefillPath::kInline) {
    const std::vector<TokenId>& prompt = sequence.job.prompt;
    row.token = prompt.front();
    row.position = 0;
    row.max_new_tokens = static_cast<int>(sequence.job.max_tokens);
    fed.assign(prompt.begin() + 1, prompt.end());
  }
  const absl::Status joined =
      batch_.Join(std::move(row), std::exchange(sequence.pages, {}), std::move(fed));
  if (!joined.ok()) FailJoin(sequence, joined);
}

void DecodeEngine::RunStep() {
  if (device_lost_ || !batch_.busy()) return;
  if (options_.self_prefill && options_.self_prefill->started()) return;
  const absl::Status submitted = batch_.SubmitSteps();
  if (!submitted.ok()) return FailBatch(submitted);
  AwaitStep();
}

void DecodeEngine::AwaitStep() {
  const auto results = batch_.Await();
  if (!results.ok()) return FailBatch(results.status());
  for (const RowResult& result : *results) PublishRow(result);
}

void DecodeEngine::PublishRow(const RowResult& result) {
  Sequence& sequence = *sequences_.at(result.row_id);
  const bool last = result.finish != FinishReason::kNone;
  if (!result.sampled.valid()) {
    if (!last) batch_.Leave(sequence.slot);
    return FailWithoutToken(sequence);
  }
  if (sequence.completion_tokens == 0) {  // Its prompt went in through the row.
    options_.metrics->inline_prefills.Increment();
    options_.metrics->inline_prefill_tokens.Increment(
        static_cast<double>(sequence.job.prompt.size()));
    PublishFirstToken(sequence, result.sampled, last);
  } else {
    ++sequence.completion_tokens;
    options_.metrics->generation_tokens.Increment();
    sequence.stream->Push(result.sampled, last);
  }
  if (last) {
    EndSequence(sequence.id, result.finish, absl::OkStatus());
  }
}

void DecodeEngine::FailWithoutToken(Sequence& sequence) {
  spdlog::error("msg=\"logits are not finite\" request_id={} completion_tokens={}",
                sequence.job.request_id, sequence.completion_tokens);
  EndSequence(sequence.id, FinishReason::kError,
              absl::InternalError("the model's logits are not finite: no token was sampled"));
}

// Not the client's fault: what no runner takes was refused at admission, or a prefill worker's
// first token is none.
void DecodeEngine::FailJoin(const Sequence& sequence, const absl::Status& status) {
  spdlog::error("msg=\"the row was refused\" request_id={} error={}", sequence.job.request_id,
                LogText(status.ToString()));
  EndSequence(sequence.id, FinishReason::kError,
              absl::InternalError(absl::StrCat("decode refused the row: ", status.message())));
}

// A step failed: its requests fail, the others and the worker go on unless the device is lost.
void DecodeEngine::FailBatch(const absl::Status& status) {
  spdlog::error("msg=\"decode step failed\" error={}", LogText(status.ToString()));
  const absl::Status reset = batch_.Reset();
  std::vector<SequenceId> running;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state == SequenceState::kRunning) running.push_back(id);
  }
  for (SequenceId id : running) {
    EndSequence(id, FinishReason::kError,
                absl::InternalError(absl::StrCat("decode step failed: ", status.message())));
  }
  if (!reset.ok()) LoseDevice(reset);
}

void DecodeEngine::LoseDevice(const absl::Status& status) {
  spdlog::critical("msg=\"device lost\" error={}", LogText(status.ToString()));
  device_lost_ = true;
  batch_.Abandon();
  FailEverything(absl::UnavailableError("the device is lost"));
}

void DecodeEngine::FailEverything(const absl::Status& status) {
  while (!sequences_.empty()) {
    const SequenceId id = sequences_.begin()->first;
    StopPrefill(*sequences_.begin()->second);
    EndSequence(id, FinishReason::kError, status);
  }
}

void DecodeEngine::CancelNow(SequenceId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  StopPrefill(*it->second);
  EndSequence(id, FinishReason::kCancelled, absl::CancelledError("the request was cancelled"));
}

// Takes the sequence out of wherever it is. Pages of a row go with its last step.
void DecodeEngine::EndSequence(SequenceId id, FinishReason finish, absl::Status status) {
  const auto it = sequences_.find(id);
  BATON_CHECK(it != sequences_.end());
  const std::unique_ptr<Sequence> sequence = std::move(it->second);
  sequences_.erase(it);
  switch (sequence->state) {
    case SequenceState::kWaiting:
      std::erase(waiting_, id);
      waiting_count_.fetch_sub(1);
      break;
    case SequenceState::kReady:
      std::erase(ready_, id);
      break;
    case SequenceState::kRunning:
      // A row that finished or failed has left the batch already.
      if (finish == FinishReason::kCancelled) batch_.Leave(sequence->slot);
      break;
    case SequenceState::kPrefilling:
      break;
  }
  options_.arena->Release(sequence->pages);
  Account(*sequence, finish);
  const SteadyTime now = SteadyNow();
  const bool started = sequence->prefill_started != SteadyTime{};
  const bool answered = sequence->completion_tokens > 0;
  sequence->stream->Finish(
      {.status = std::move(status),
       .finish = finish,
       .prompt_tokens = static_cast<uint32_t>(sequence->job.prompt.size()),
       .completion_tokens = sequence->completion_tokens,
       .queue_ms = ToMilliseconds((started ? sequence->prefill_started : now) - sequence->arrived),
       .prefill_ms =
           answered ? ToMilliseconds(sequence->first_token_at - sequence->prefill_started) : 0,
       .decode_ms = answered ? ToMilliseconds(now - sequence->first_token_at) : 0});
}

void DecodeEngine::Account(const Sequence& sequence, FinishReason finish) {
  DecodeMetrics& metrics = *options_.metrics;
  switch (finish) {
    case FinishReason::kStop:
      metrics.finished_stop.Increment();
      break;
    case FinishReason::kLength:
      metrics.finished_length.Increment();
      break;
    case FinishReason::kCancelled:
      metrics.finished_cancelled.Increment();
      break;
    case FinishReason::kNone:
    case FinishReason::kError:
      metrics.finished_error.Increment();
      break;
  }
  if (sequence.completion_tokens == 0) return;
  metrics.decode_seconds.Observe(ToMilliseconds(SteadyNow() - sequence.first_token_at) / 1e3);
}

void DecodeEngine::Report() {
  const KvArenaStats stats = options_.arena->Stats();
  const KvGroupStats& full = stats.groups[kFullGroup];
  const KvGroupStats& window = stats.groups[kWindowGroup];
  WorkerReport report = options_.identity;
  report.ready = !device_lost_;
  report.reason = device_lost_ ? "the device is lost" : "";
  report.prefills_itself = options_.self_prefill != nullptr;
  report.running = batch_.row_count() + coordinator_.attempt_count();
  if (options_.self_prefill) {
    report.running += static_cast<uint32_t>(options_.self_prefill->count());
  }
  report.waiting = static_cast<uint32_t>(waiting_.size());
  report.max_rows = batch_.max_rows();
  report.max_waiting = options_.max_waiting;
  report.max_context_tokens = options_.limits.max_context_tokens;
  report.transports = coordinator_.Transports();
  report.full_pages = full.page_count;
  report.full_pages_used = full.used();
  report.window_pages = window.page_count;
  report.window_pages_used = window.used();
  report.quarantined_pages = full.quarantined + window.quarantined;
  if (report == reported_) return;
  reported_ = report;
  options_.metrics->SetLoad(report.running, report.waiting);
  options_.metrics->SetPages(stats);
  if (options_.on_report) options_.on_report(report);
}

}  // namespace baton
