// The DecodeBenchmark of the decode megakernel. This header needs no CUDA.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/decode_benchmark.h"

namespace baton::cuda {

// See MakeDecodeBenchmark.
absl::StatusOr<std::unique_ptr<DecodeBenchmark>> MakeCudaDecodeBenchmark(
    const DecodeBenchmarkOptions& options);

}  // namespace baton::cuda
