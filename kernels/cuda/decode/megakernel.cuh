// One decode step of the whole model as one kernel: every worker (one block an SM) walks its task
// list.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/decode/decode_params.h"

namespace baton::cuda {

// Fills `plan` for `row_tiles` (NT) and the worker with the most rows; returns false if the shared
// memory does not fit, with plan.total what it would take. `limit` is the device's per-block
// maximum.
struct SmemDemand {
  int row_tiles;
  int hidden;
  int expert_limit;
  int experts_per_token;
  int keep_tiles = 0;  // Most owned 16-row tiles of the hidden dimension.
  int q_width;
  int expert_width;
  int slot_bytes;  // Of the weights' ring.
  int page_slots;  // Of the pages' ring.
  int page_bytes;  // A K or V tile.
};
// Of a launch with up to `rows` rows, at most `most`: more rows leave less of shared memory, and
// smaller slots keep enough of them.
int SlotBytesFor(int rows, int most);
int PageSlotsFor(int rows, int most);
bool PlanSmem(const SmemDemand& demand, uint32_t limit, SmemPlan& plan);

// The kernel for up to 8, 16, 24, 32 rows; each in its own file.
const void* DecodeStepRows8();
const void* DecodeStepRows16();
const void* DecodeStepRows24();
const void* DecodeStepRows32();

// Launches one step on `stream` as a cooperative grid of params.worker_count blocks. row_tiles
// in 1..4.
cudaError_t LaunchDecodeStep(const DecodeParams& params, cudaStream_t stream);
// Raises the kernels' shared-memory limits and loads them; returns how many blocks fit on the
// device at once.
cudaError_t PrepareDecodeKernels(uint32_t smem_bytes, int* resident_blocks);

}  // namespace baton::cuda
