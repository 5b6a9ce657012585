#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_check.h"

namespace baton::cuda {
namespace {

constexpr int kComputeMajor = 9;

}  // namespace

absl::Status CheckCudaDevice() {
  // Kernels are loaded at start: the first step of a request must not wait for the disk. CUDA reads
  // this once, at its first call.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    const std::string found =
        error == cudaSuccess ? "none" : absl::StrCat("none (", cudaGetErrorString(error), ")");
    cudaGetLastError();
    return absl::FailedPreconditionError(
        absl::StrCat("backend cuda: wanted a CUDA device, found ", found));
  }
  int major = 0, minor = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  if (major == kComputeMajor) return absl::OkStatus();
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return absl::FailedPreconditionError(absl::StrCat(
      "backend cuda: wanted a device of compute capability 9.0, found ", major, ".", minor));
}

}  // namespace baton::cuda
