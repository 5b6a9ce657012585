#include "kernels/decode_benchmark_factory.h"

#ifdef BATON_WITH_CUDA
#include "kernels/cuda/bench/cuda_baseline_benchmark.h"
#include "kernels/cuda/bench/cuda_decode_benchmark.h"
#endif

namespace baton {

absl::StatusOr<std::unique_ptr<DecodeBenchmark>> MakeDecodeBenchmark(
    const DecodeBenchmarkOptions& options) {
#ifdef BATON_WITH_CUDA
  if (options.baseline) return cuda::MakeCudaBaselineBenchmark(options);
  return cuda::MakeCudaDecodeBenchmark(options);
#else
  (void)options;
  return absl::FailedPreconditionError("bench decode: wanted a build with CUDA, found one without");
#endif
}

}  // namespace baton
