#include "kernels/backend_factory.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cpu/cpu_backend.h"

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

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const Checkpoint& checkpoint,
                                                     const BackendOptions& options) {
  if (options.dtype != "bfloat16" && options.dtype != "float32") {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype: wanted bfloat16 or float32, found \"", options.dtype, "\""));
  }
  if (options.kind == "cpu") return MakeCpu(checkpoint, options);
  if (options.kind == "cuda") {
    return absl::FailedPreconditionError(
        "backend cuda: wanted a build with CUDA, found one without (or without its backend)");
  }
  if (options.kind == "auto") return MakeCpu(checkpoint, options);
  return absl::InvalidArgumentError(
      absl::StrCat("backend: wanted auto, cpu or cuda, found \"", options.kind, "\""));
}

}  // namespace baton
