// The GPU that this process uses: device 0 of what CUDA_VISIBLE_DEVICES leaves. Needs no CUDA.
#pragma once

#include "absl/status/status.h"

namespace baton::cuda {

// FailedPrecondition, with the reason, where this process cannot use a GPU of compute capability 9.
// Call it before any other CUDA call of the process: it settles how kernels are loaded.
absl::Status CheckCudaDevice();

}  // namespace baton::cuda
