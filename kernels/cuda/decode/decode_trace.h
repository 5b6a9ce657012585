// The trace of one decode step as text.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/decode/decode_params.h"

namespace baton::cuda {

// FailedPrecondition if a trace is `wanted` of a build that keeps none.
absl::Status CheckTraceBuilt(bool wanted);

// `events` [worker][capacity]: three a task (begin, waits done, end), time 0 where none was
// written. Returns Perfetto JSON: a process a worker, with its waits on one track and its work on
// another; microseconds since the first event.
std::string DecodeTraceJson(absl::Span<const TraceEvent> events, int worker_count);

}  // namespace baton::cuda
