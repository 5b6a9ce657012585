// Copies one layer's slices of many pages in one launch, from and to memory of this or a peer GPU.
// For page tables that a copy engine would need one copy a page for.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace baton::prefill {

struct PagePair {
  uint32_t from = 0;
  uint32_t to = 0;
};

// When the first block of a copy began and the last one's bytes had arrived: the device's clock, in
// nanoseconds. What a stream's events would add is waiting for multiprocessors.
struct CopySpan {
  unsigned long long begin_ns = ~0ull;
  unsigned long long end_ns = 0;
};

// Slice i: slice_bytes from from + pages[i].from * from_page_bytes to
// to + pages[i].to * to_page_bytes. Addresses and sizes are multiples of 16.
struct SliceCopyCall {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t from_page_bytes = 0;
  uint64_t to_page_bytes = 0;
  uint64_t slice_bytes = 0;
  const PagePair* pages = nullptr;  // [count] on the device.
  int count = 0;
  CopySpan* span = nullptr;  // On the device; a maximal begin and a zero end before the launch.
};
absl::Status LaunchSliceCopy(const SliceCopyCall& call, cudaStream_t stream);

}  // namespace baton::prefill
