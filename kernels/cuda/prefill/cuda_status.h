// CUDA and cuBLAS results as absl::Status: what failed, where, and the library's own name for it.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::prefill {

inline absl::Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

inline absl::Status CublasStatus(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": cuBLAS status ", static_cast<int>(status)));
}

}  // namespace baton::prefill

// Return from the enclosing function with the status of a failed CUDA or cuBLAS call, or of the
// kernel launch just made.
#define BATON_PREFILL_CUDA(call) BATON_RETURN_IF_ERROR(::baton::prefill::CudaStatus((call), #call))
#define BATON_PREFILL_CUBLAS(call) \
  BATON_RETURN_IF_ERROR(::baton::prefill::CublasStatus((call), #call))
#define BATON_PREFILL_LAUNCHED(name) \
  BATON_RETURN_IF_ERROR(::baton::prefill::CudaStatus(cudaGetLastError(), "launch of " name))
