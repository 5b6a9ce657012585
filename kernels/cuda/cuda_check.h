// The one way a CUDA error becomes an absl::Status. Also clears the sticky last error, so that a
// failed call never surfaces in an unrelated later one.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::cuda {

inline absl::Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  const std::string message =
      absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace baton::cuda

// Returns the Status of a CUDA call from the enclosing function unless it succeeded.
#define BATON_RETURN_IF_CUDA_ERROR(call)                                           \
  do {                                                                             \
    if (absl::Status baton_cuda_status = ::baton::cuda::CudaStatus((call), #call); \
        !baton_cuda_status.ok())                                                   \
      return baton_cuda_status;                                                    \
  } while (0)
