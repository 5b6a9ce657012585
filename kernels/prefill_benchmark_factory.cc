#include "kernels/prefill_benchmark_factory.h"

#ifdef BATON_WITH_CUDA
#include "kernels/cuda/bench/cuda_prefill_benchmark.h"
#endif

namespace baton {

absl::StatusOr<std::unique_ptr<PrefillBenchmark>> MakePrefillBenchmark(
    const PrefillBenchmarkOptions& options) {
#ifdef BATON_WITH_CUDA
  return cuda::MakeCudaPrefillBenchmark(options);
#else
  (void)options;
  return absl::FailedPreconditionError(
      "bench prefill: wanted a build with CUDA, found one without");
#endif
}

}  // namespace baton
