#include "services/base/proto_convert.h"

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr float kMaxTemperature = 100.0f;

}  // namespace

absl::StatusOr<SamplingParams> FromProto(const v1::SamplingParams& message) {
  const float temperature = message.temperature();
  if (!(temperature >= 0.0f && temperature <= kMaxTemperature)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling.temperature: wanted 0 to 100, found ", temperature));
  }
  return SamplingParams{.temperature = temperature < kLeastTemperature ? 0.0f : temperature,
                        .seed = message.seed()};
}

v1::FinishReason ToProto(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kNone:
    case FinishReason::kCancelled:
    case FinishReason::kError:
      return v1::FINISH_REASON_UNSPECIFIED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

FinishReason FromProto(v1::FinishReason finish) {
  if (finish == v1::FINISH_REASON_STOP) return FinishReason::kStop;
  if (finish == v1::FINISH_REASON_LENGTH) return FinishReason::kLength;
  return FinishReason::kNone;
}

v1::DecodeResponse ToProto(const TokenChannel::Batch& batch) {
  v1::DecodeResponse message;
  for (const SampledToken& sampled : batch.tokens) {
    message.add_token_ids(sampled.token);
    message.add_logprobs(sampled.logprob);
  }
  if (!batch.ended || !batch.end.status.ok()) return message;
  message.set_finish_reason(ToProto(batch.end.finish));
  message.mutable_usage()->set_prompt_tokens(batch.end.prompt_tokens);
  message.mutable_usage()->set_completion_tokens(batch.end.completion_tokens);
  message.mutable_timings()->set_queue_ms(batch.end.queue_ms);
  message.mutable_timings()->set_prefill_ms(batch.end.prefill_ms);
  message.mutable_timings()->set_decode_ms(batch.end.decode_ms);
  return message;
}

v1::TransportInfo ToProto(const TransportReport& transport) {
  v1::TransportInfo message;
  message.set_peer(transport.peer);
  message.set_kind(transport.kind);
  message.set_write_bytes_per_second(transport.write_bytes_per_second);
  message.set_read_bytes_per_second(transport.read_bytes_per_second);
  return message;
}

v1::StatusReport ToProto(const WorkerReport& report, uint64_t sequence) {
  v1::StatusReport message;
  message.set_role(report.role == WorkerRole::kDecode ? "decode" : "prefill");
  message.set_incarnation(report.incarnation);
  message.set_sequence(sequence);
  message.set_ready(report.ready);
  message.set_draining(report.draining);
  message.set_reason(report.reason);
  message.set_model_fingerprint(report.model_fingerprint);
  message.set_device(report.device);
  message.set_running(report.running);
  message.set_waiting(report.waiting);
  message.set_max_rows(report.max_rows);
  message.set_max_waiting(report.max_waiting);
  message.set_queued_prompt_tokens(report.queued_prompt_tokens);
  message.set_full_pages(report.full_pages);
  message.set_full_pages_used(report.full_pages_used);
  message.set_window_pages(report.window_pages);
  message.set_window_pages_used(report.window_pages_used);
  message.set_quarantined_pages(report.quarantined_pages);
  message.set_max_context_tokens(report.max_context_tokens);
  message.set_prefills_itself(report.prefills_itself);
  for (const TransportReport& transport : report.transports) {
    *message.add_transports() = ToProto(transport);
  }
  return message;
}

WorkerReport FromProto(const v1::StatusReport& message) {
  WorkerReport report{
      .role = message.role() == "prefill" ? WorkerRole::kPrefill : WorkerRole::kDecode,
      .incarnation = message.incarnation(),
      .ready = message.ready(),
      .draining = message.draining(),
      .reason = message.reason(),
      .model_fingerprint = message.model_fingerprint(),
      .device = message.device(),
      .running = message.running(),
      .waiting = message.waiting(),
      .max_rows = message.max_rows(),
      .max_waiting = message.max_waiting(),
      .queued_prompt_tokens = message.queued_prompt_tokens(),
      .full_pages = message.full_pages(),
      .full_pages_used = message.full_pages_used(),
      .window_pages = message.window_pages(),
      .window_pages_used = message.window_pages_used(),
      .quarantined_pages = message.quarantined_pages(),
      .max_context_tokens = message.max_context_tokens(),
      .prefills_itself = message.prefills_itself(),
  };
  for (const v1::TransportInfo& transport : message.transports()) {
    report.transports.push_back({.peer = transport.peer(),
                                 .kind = transport.kind(),
                                 .write_bytes_per_second = transport.write_bytes_per_second(),
                                 .read_bytes_per_second = transport.read_bytes_per_second()});
  }
  return report;
}

}  // namespace baton
