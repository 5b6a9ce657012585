// DecodeEngine, the part that has prompts computed: by a prefill worker, in this process, or as
// rows of decode steps.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "services/decode/decode_engine.h"

namespace baton {
namespace {

bool IsStop(const DecodeJob& job, TokenId token) {
  return std::find(job.stop_ids.begin(), job.stop_ids.end(), token) != job.stop_ids.end();
}

}  // namespace

PrefillPath DecodeEngine::PathOf(const DecodeJob& job) const {
  if (IsInline(job, options_.limits)) return PrefillPath::kInline;
  return options_.self_prefill ? PrefillPath::kSelf : PrefillPath::kWorker;
}

void DecodeEngine::StartPrefill(Sequence& sequence) {
  sequence.state = SequenceState::kPrefilling;
  switch (sequence.path) {
    case PrefillPath::kWorker:
      coordinator_.Start(sequence, sequence.job.prefill_workers[sequence.next_worker++]);
      sequence.pages = {};  // The coordinator's now.
      break;
    case PrefillPath::kSelf:
      options_.self_prefill->Add(&sequence);
      break;
    case PrefillPath::kInline:
      sequence.state = SequenceState::kReady;
      ready_.push_back(sequence.id);
      break;
  }
}

void DecodeEngine::OnPrefilled(PrefillOutcome outcome) {
  Sequence& sequence = *sequences_.at(outcome.sequence_id);
  if (!outcome.answer.ok()) return TryNextWorker(sequence, outcome.answer.status());
  sequence.pages = std::move(outcome.pages);
  FinishPrefill(sequence, outcome.answer->first);
}

// A chunk of the oldest prompt. Steps wait until the prompt is done, and what they have sampled is
// published first; between two prompts there is a step.
void DecodeEngine::RunSelfPrefill() {
  if (device_lost_ || !options_.self_prefill) return;
  const Sequence* const head = options_.self_prefill->head();
  if (head == nullptr) return;
  while (batch_.awaiting() && !device_lost_) AwaitStep();
  if (device_lost_) return;
  Sequence& sequence = *sequences_.at(head->id);
  const SteadyTime started = SteadyNow();
  const absl::StatusOr<std::optional<SampledToken>> first = options_.self_prefill->RunChunk();
  options_.metrics->self_prefill_seconds.Observe(ToMilliseconds(SteadyNow() - started) / 1e3);
  if (!first.ok()) return LoseDevice(first.status());
  if (!first->has_value()) return;
  options_.metrics->self_prefills.Increment();
  FinishPrefill(sequence, **first);
}

// The prompt's K/V lies in sequence.pages.
void DecodeEngine::FinishPrefill(Sequence& sequence, const SampledToken& first) {
  if (!first.valid()) return FailWithoutToken(sequence);
  const auto prompt_tokens = static_cast<uint32_t>(sequence.job.prompt.size());
  options_.arena->ShrinkWindow(prompt_tokens, prompt_tokens + sequence.job.max_tokens,
                               &sequence.pages);
  const bool stops = IsStop(sequence.job, first.token);
  const bool last = stops || sequence.job.max_tokens == 1;
  PublishFirstToken(sequence, first, last);
  if (last) {
    EndSequence(sequence.id, stops ? FinishReason::kStop : FinishReason::kLength, absl::OkStatus());
  } else {
    sequence.state = SequenceState::kReady;
    ready_.push_back(sequence.id);
  }
}

void DecodeEngine::PublishFirstToken(Sequence& sequence, const SampledToken& first, bool last) {
  sequence.first_token = first.token;
  sequence.first_token_at = SteadyNow();
  sequence.completion_tokens = 1;
  options_.metrics->prompt_tokens.Increment(static_cast<double>(sequence.job.prompt.size()));
  options_.metrics->generation_tokens.Increment();
  options_.metrics->time_to_first_token_seconds.Observe(
      ToMilliseconds(sequence.first_token_at - sequence.arrived) / 1e3);
  sequence.stream->Push(first, last);
}

// The client notices nothing: the sequence goes back to the head of the queue for the next worker.
void DecodeEngine::TryNextWorker(Sequence& sequence, const absl::Status& status) {
  sequence.last_error = status;
  if (sequence.next_worker < sequence.job.prefill_workers.size()) {
    sequence.state = SequenceState::kWaiting;
    waiting_.push_front(sequence.id);
    waiting_count_.fetch_add(1);
    return;
  }
  const std::string message =
      absl::StrCat("no prefill worker could serve the prompt; the last one said: ",
                   absl::StatusCodeToString(status.code()), ": ", status.message());
  const bool full = absl::IsResourceExhausted(status);
  EndSequence(sequence.id, FinishReason::kError,
              full ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message));
}

void DecodeEngine::StopPrefill(const Sequence& sequence) {
  if (sequence.state != SequenceState::kPrefilling) return;
  if (sequence.path == PrefillPath::kSelf) {
    options_.self_prefill->Remove(&sequence);
  } else {
    coordinator_.Cancel(sequence.id);
  }
}

}  // namespace baton
