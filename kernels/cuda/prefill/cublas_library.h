// cuBLAS as far as prefill uses it, loaded when the first engine is made instead of linked: a
// process that only decodes needs none of it, and its 100 KiB of thread-local storage would not fit
// on the small stacks that other libraries give their threads. Owned by the engine; immutable.
#pragma once

#include <cublas_v2.h>

#include "absl/status/statusor.h"

namespace baton::prefill {

struct CublasLibrary {
  // FailedPrecondition naming the library and what the loader said. It stays loaded for the life of
  // the process.
  static absl::StatusOr<CublasLibrary> Load();

  cublasStatus_t (*create)(cublasHandle_t* handle);
  cublasStatus_t (*destroy)(cublasHandle_t handle);
  cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
  cublasStatus_t (*set_workspace)(cublasHandle_t handle, void* workspace, size_t size_bytes);
  cublasStatus_t (*set_math_mode)(cublasHandle_t handle, cublasMath_t mode);
  cublasStatus_t (*gemm_ex)(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int a_pitch, const void* b,
                            cudaDataType b_type, int b_pitch, const void* beta, void* c,
                            cudaDataType c_type, int c_pitch, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t algorithm);
};

}  // namespace baton::prefill
