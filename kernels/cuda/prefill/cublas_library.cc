#include "kernels/cuda/prefill/cublas_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton::prefill {
namespace {

template <typename Function>
absl::Status Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cuBLAS: wanted ", name, ", found none"));
}

}  // namespace

absl::StatusOr<CublasLibrary> CublasLibrary::Load() {
  // Of the version whose header this was compiled with. CUDA's own folder is not always one that
  // the loader searches.
  const std::string name = absl::StrCat("libcublas.so.", CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string reason = library == nullptr ? dlerror() : "";
  if (library == nullptr) {
    library = dlopen(absl::StrCat("/usr/local/cuda/lib64/", name).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cuBLAS: wanted ", name, ", found ", reason));
  }
  CublasLibrary found;
  BATON_RETURN_IF_ERROR(Find(library, "cublasCreate_v2", &found.create));
  BATON_RETURN_IF_ERROR(Find(library, "cublasDestroy_v2", &found.destroy));
  BATON_RETURN_IF_ERROR(Find(library, "cublasSetStream_v2", &found.set_stream));
  BATON_RETURN_IF_ERROR(Find(library, "cublasSetWorkspace_v2", &found.set_workspace));
  BATON_RETURN_IF_ERROR(Find(library, "cublasSetMathMode", &found.set_math_mode));
  BATON_RETURN_IF_ERROR(Find(library, "cublasGemmEx", &found.gemm_ex));
  return found;
}

}  // namespace baton::prefill
