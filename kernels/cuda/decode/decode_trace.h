// The trace of one decode step as text.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/decode/decode_params.h"

namespace baton::cuda {

// FailedPrecondition if a trace is `wanted` of a build that keeps none.
absl::Status CheckTraceBuilt(bool wanted);

// `events` [worker][capacity], kTracePhases a task. Returns Perfetto JSON: a process a worker, a
// track each for its MMA, attention and epilogue warps; of a task its waits for other workers, its
// wait for the first chunk ("load"), its work, and until others can see what it made ("publish");
// microseconds since the first event.
std::string DecodeTraceJson(absl::Span<const TraceEvent> events, int worker_count);

}  // namespace baton::cuda
