#include "kernels/backend_factory.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "kernels/cpu/cpu_backend.h"
#ifdef BATON_WITH_CUDA
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_device.h"
#endif

namespace baton {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> MakeCpu(const Checkpoint& checkpoint,
                                                 const BackendOptions& options) {
  BATON_ASSIGN_OR_RETURN(
      auto backend,
      CpuBackend::Make(checkpoint,
                       {.mode = options.dtype == "float32" ? CpuMode::kFloat32 : CpuMode::kBfloat16,
                        .threads = options.threads,
                        .instruction_set = options.instruction_set}));
  return backend;
}

#ifdef BATON_WITH_CUDA
absl::Status CheckCuda() { return cuda::CheckCudaDevice(); }

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(const Checkpoint& checkpoint,
                                                  const BackendOptions& options) {
  if (options.dtype != "bfloat16") {
    return absl::FailedPreconditionError(
        absl::StrCat("backend cuda: dtype: wanted bfloat16, found ", options.dtype,
                     " (float32 is the CPU's reference mode)"));
  }
  BATON_ASSIGN_OR_RETURN(
      auto backend, cuda::CudaBackend::Make(checkpoint, {.decode_only = options.decode_only,
                                                         .prefill_only = options.prefill_only}));
  return backend;
}
#else
absl::Status CheckCuda() {
  return absl::FailedPreconditionError("backend cuda: wanted a build with CUDA, found one without");
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(const Checkpoint&, const BackendOptions&) {
  return CheckCuda();
}
#endif

// The kind that "auto" means here; says which and why.
std::string ResolveAuto(const BackendOptions& options) {
  absl::Status cuda = CheckCuda();
  if (cuda.ok() && options.dtype != "bfloat16") {
    cuda = absl::FailedPreconditionError("dtype float32 runs on the CPU only");
  }
  if (cuda.ok()) {
    spdlog::info("msg=\"backend\" kind=cuda");
    return "cuda";
  }
  spdlog::info("msg=\"backend\" kind=cpu because={}", LogText(std::string(cuda.message())));
  return "cpu";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const Checkpoint& checkpoint,
                                                     const BackendOptions& options) {
  if (options.dtype != "bfloat16" && options.dtype != "float32") {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype: wanted bfloat16 or float32, found \"", options.dtype, "\""));
  }
  const std::string kind = options.kind == "auto" ? ResolveAuto(options) : options.kind;
  if (kind == "cpu") return MakeCpu(checkpoint, options);
  if (kind == "cuda") return MakeCuda(checkpoint, options);
  return absl::InvalidArgumentError(
      absl::StrCat("backend: wanted auto, cpu or cuda, found \"", options.kind, "\""));
}

}  // namespace baton
