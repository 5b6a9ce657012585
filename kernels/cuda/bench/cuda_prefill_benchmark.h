// The PrefillBenchmark of the CUDA prefill engine. This header needs no CUDA.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/prefill_benchmark.h"

namespace baton::cuda {

// See MakePrefillBenchmark.
absl::StatusOr<std::unique_ptr<PrefillBenchmark>> MakeCudaPrefillBenchmark(
    const PrefillBenchmarkOptions& options);

}  // namespace baton::cuda
