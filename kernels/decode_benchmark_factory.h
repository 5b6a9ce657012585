// Makes the benchmark of decode steps. The .cc is the one file of it that knows whether CUDA was
// built in.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/decode_benchmark.h"

namespace baton {

// FailedPrecondition: a build without CUDA or the trace that is wanted, no device, or a geometry
// that the kernel cannot run. ResourceExhausted: weights and KV do not fit on the device. A
// checkpoint must outlive the result.
absl::StatusOr<std::unique_ptr<DecodeBenchmark>> MakeDecodeBenchmark(
    const DecodeBenchmarkOptions& options);

}  // namespace baton
