// ChunkUpload: copies a ChunkPlan to the device in one transfer from pinned memory. One owner
// thread; the stream must be idle before the next Start.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/prefill/chunk_plan.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/cuda/prefill/sampling.h"

namespace baton::prefill {

// Device addresses of a plan's arrays.
struct DevicePlan {
  const int32_t* token_ids = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* token_segment = nullptr;
  const SegmentPages* segments = nullptr;
  const uint32_t* pages = nullptr;
  const AttentionTile* tiles = nullptr;
  const int32_t* sample_rows = nullptr;
  const SampleRow* sample_params = nullptr;
};

class ChunkUpload {
 public:
  // Enqueues the copy; buffers grow when a plan needs more than any before.
  absl::StatusOr<DevicePlan> Start(const ChunkPlan& plan, absl::Span<const PrefillSegment> segments,
                                   cudaStream_t stream);

 private:
  UploadMemory memory_;
};

}  // namespace baton::prefill
