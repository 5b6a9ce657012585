// The memory roof as the decode kernel could see it: weights streamed through a shared-memory ring
// by bulk copies, nothing computed, no dependency.
#pragma once

#include "absl/status/statusor.h"

namespace baton::cuda {

// Bytes a second of a read-only stream over `bytes` of device memory, best of `runs`.
absl::StatusOr<double> MeasureStreamBandwidth(unsigned long long bytes, int runs,
                                              int in_flight_chunks);

}  // namespace baton::cuda
