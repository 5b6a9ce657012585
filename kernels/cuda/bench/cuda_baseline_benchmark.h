// The DecodeBenchmark of the decode step as one kernel per operation. This header needs no CUDA.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/decode_benchmark.h"

namespace baton::cuda {

// See MakeDecodeBenchmark; options.baseline is set.
absl::StatusOr<std::unique_ptr<DecodeBenchmark>> MakeCudaBaselineBenchmark(
    const DecodeBenchmarkOptions& options);

}  // namespace baton::cuda
