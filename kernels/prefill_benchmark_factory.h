// Makes the benchmark of prefill. The .cc is the one file of it that knows whether CUDA was built
// in.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/prefill_benchmark.h"

namespace baton {

// FailedPrecondition: a build without CUDA or no device. ResourceExhausted: weights and KV do not
// fit on the device. A checkpoint must outlive the result.
absl::StatusOr<std::unique_ptr<PrefillBenchmark>> MakePrefillBenchmark(
    const PrefillBenchmarkOptions& options);

}  // namespace baton
