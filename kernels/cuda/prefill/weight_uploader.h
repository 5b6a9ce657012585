// WeightUploader: streams rows of host tensors to consecutive device addresses through two pinned
// buffers, converting to bf16 on the way. One thread.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/models/tensor_view.h"

namespace baton::prefill {

class WeightUploader {
 public:
  static absl::StatusOr<std::unique_ptr<WeightUploader>> Create();
  ~WeightUploader();

  // Ends the current run of addresses and begins another one at `target`.
  absl::Status Begin(const __nv_bfloat16* target);
  // Appends rows first .. first + count - 1 of `tensor` to the run.
  absl::Status Append(const TensorView& tensor, int64_t first, int64_t count);
  absl::Status Append(const TensorView& tensor) { return Append(tensor, 0, tensor.shape[0]); }
  // Waits until everything is on the device.
  absl::Status Finish();

 private:
  static constexpr int64_t kBufferElements = int64_t{16} << 20;
  WeightUploader() = default;
  absl::Status Flush();

  PinnedMemory buffers_[2];
  cudaEvent_t copied_[2] = {};
  cudaStream_t stream_ = nullptr;
  int current_ = 0;
  int64_t filled_ = 0;  // Elements in the current buffer.
  __nv_bfloat16* target_ = nullptr;
};

}  // namespace baton::prefill
