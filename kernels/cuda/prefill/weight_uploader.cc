#include "kernels/cuda/prefill/weight_uploader.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/bfloat16.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {
namespace {

// Elements first .. first + count - 1 as bf16.
void ConvertElements(const TensorView& tensor, int64_t first, int64_t count, Bf16* out) {
  if (tensor.dtype == DType::kBf16) {
    std::memcpy(out, static_cast<const Bf16*>(tensor.data) + first, count * sizeof(Bf16));
    return;
  }
  constexpr int64_t kBlock = 4096;
  std::vector<float> floats(std::min(count, kBlock));
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t part = std::min(kBlock, count - done);
    CopyToFloat(tensor, first + done, part, floats.data());
    for (int64_t i = 0; i < part; ++i) out[done + i] = FloatToBf16(floats[i]);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightUploader>> WeightUploader::Create() {
  std::unique_ptr<WeightUploader> uploader(new WeightUploader());
  for (int i = 0; i < 2; ++i) {
    BATON_ASSIGN_OR_RETURN(uploader->buffers_[i],
                           PinnedMemory::Allocate(kBufferElements * sizeof(Bf16)));
    BATON_PREFILL_CUDA(cudaEventCreateWithFlags(&uploader->copied_[i], cudaEventDisableTiming));
  }
  BATON_PREFILL_CUDA(cudaStreamCreateWithFlags(&uploader->stream_, cudaStreamNonBlocking));
  return uploader;
}

WeightUploader::~WeightUploader() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : copied_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status WeightUploader::Begin(const __nv_bfloat16* target) {
  BATON_RETURN_IF_ERROR(Flush());
  target_ = const_cast<__nv_bfloat16*>(target);
  return absl::OkStatus();
}

absl::Status WeightUploader::Append(const TensorView& tensor, int64_t first, int64_t count) {
  int64_t element = first * tensor.RowElementCount();
  int64_t left = count * tensor.RowElementCount();
  while (left > 0) {
    const int64_t part = std::min(left, kBufferElements - filled_);
    ConvertElements(tensor, element, part, buffers_[current_].As<Bf16>() + filled_);
    filled_ += part;
    element += part;
    left -= part;
    if (filled_ == kBufferElements) BATON_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status WeightUploader::Flush() {
  if (filled_ == 0) return absl::OkStatus();
  BATON_PREFILL_CUDA(cudaMemcpyAsync(target_, buffers_[current_].data(), filled_ * sizeof(Bf16),
                                     cudaMemcpyHostToDevice, stream_));
  BATON_PREFILL_CUDA(cudaEventRecord(copied_[current_], stream_));
  target_ += filled_;
  filled_ = 0;
  current_ ^= 1;
  // An event that was never recorded counts as complete.
  BATON_PREFILL_CUDA(cudaEventSynchronize(copied_[current_]));
  return absl::OkStatus();
}

absl::Status WeightUploader::Finish() {
  BATON_RETURN_IF_ERROR(Flush());
  BATON_PREFILL_CUDA(cudaStreamSynchronize(stream_));
  return absl::OkStatus();
}

}  // namespace baton::prefill
