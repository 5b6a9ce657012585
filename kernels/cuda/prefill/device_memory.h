// DeviceMemory and PinnedMemory: owners of one cudaMalloc or cudaMallocHost allocation. Move-only;
// freed on destruction on whatever device is current.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {

template <bool kPinnedHost>
class CudaAllocation {
 public:
  CudaAllocation() = default;
  CudaAllocation(CudaAllocation&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  CudaAllocation& operator=(CudaAllocation&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  CudaAllocation(const CudaAllocation&) = delete;
  CudaAllocation& operator=(const CudaAllocation&) = delete;
  ~CudaAllocation() {
    if (data_ == nullptr) return;
    if constexpr (kPinnedHost) {
      cudaFreeHost(data_);
    } else {
      cudaFree(data_);
    }
  }

  // ResourceExhausted names the bytes that were wanted and those that are free.
  static absl::StatusOr<CudaAllocation> Allocate(uint64_t bytes) {
    CudaAllocation memory;
    const uint64_t wanted = bytes == 0 ? 256 : bytes;
    const cudaError_t error =
        kPinnedHost ? cudaMallocHost(&memory.data_, wanted) : cudaMalloc(&memory.data_, wanted);
    if (error != cudaSuccess) {
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      cudaGetLastError();
      return CudaStatus(
          error,
          absl::StrCat("allocating ", wanted, " bytes of ", kPinnedHost ? "pinned host" : "device",
                       " memory (device bytes free: ", free, " of ", total, ")")
              .c_str());
    }
    memory.bytes_ = bytes;
    return memory;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <typename T>
  T* As(uint64_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(data() + offset_bytes);
  }
  uint64_t size_bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

using DeviceMemory = CudaAllocation<false>;
using PinnedMemory = CudaAllocation<true>;

// Pinned memory and device memory of one size, for copies from one to the other.
class UploadMemory {
 public:
  // Both hold at least `bytes` from here on; what they held may be lost. After an error both are as
  // they were.
  absl::Status Grow(uint64_t bytes) {
    if (bytes <= host_.size_bytes()) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(PinnedMemory host, PinnedMemory::Allocate(2 * bytes));
    BATON_ASSIGN_OR_RETURN(DeviceMemory device, DeviceMemory::Allocate(2 * bytes));
    host_ = std::move(host);
    device_ = std::move(device);
    return absl::OkStatus();
  }
  const PinnedMemory& host() const { return host_; }
  const DeviceMemory& device() const { return device_; }

 private:
  PinnedMemory host_;
  DeviceMemory device_;
};

// Lays buffers out in one allocation: offsets aligned to 1024 bytes, which every consumer accepts.
class BufferPlan {
 public:
  uint64_t Add(uint64_t bytes) {
    const uint64_t offset = end_;
    end_ = (end_ + bytes + 1023) / 1024 * 1024;
    return offset;
  }
  uint64_t size_bytes() const { return end_; }

 private:
  uint64_t end_ = 0;
};

}  // namespace baton::prefill
