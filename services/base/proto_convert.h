// The only file that knows both the messages of proto/ and the domain types of common/ and
// services/base. Conversions from messages validate: InvalidArgument names field, wanted and found.
#pragma once

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "baton/v1/worker.pb.h"
#include "common/generation.h"
#include "services/base/token_channel.h"
#include "services/base/worker_report.h"

namespace baton {

// temperature in [0, 100] and not NaN; an unset seed is 0.
absl::StatusOr<SamplingParams> FromProto(const v1::SamplingParams& message);
v1::FinishReason ToProto(FinishReason finish);
FinishReason FromProto(v1::FinishReason finish);

// Tokens and, at the end, finish reason, usage and timings. A failed end has no message.
v1::DecodeResponse ToProto(const TokenChannel::Batch& batch);

v1::StatusReport ToProto(const WorkerReport& report, uint64_t sequence);
WorkerReport FromProto(const v1::StatusReport& message);
v1::TransportInfo ToProto(const TransportReport& transport);

}  // namespace baton
