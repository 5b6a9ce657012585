#include "kernels/cuda/decode/megakernel.cuh"

#include <algorithm>

#include "common/check.h"
#include "kernels/cuda/decode/down_rows.cuh"
#include "kernels/task_graph/chunk_steps.h"

namespace baton::cuda {
namespace {

const void* KernelFor(int row_tiles) {
  switch (row_tiles) {
    case 1:
      return DecodeStepRows8();
    case 2:
      return DecodeStepRows16();
    case 3:
      return DecodeStepRows24();
    default:
      return DecodeStepRows32();
  }
}

uint32_t Align(uint32_t bytes, uint32_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

int SlotBytesFor(int rows, int most) {
  return std::min(most, rows <= 8 ? most : rows <= 16 ? 24576 : 12288);
}

// A sole row has another slot of weights instead.
int PageSlotsFor(int rows, int most) {
  return std::min(most, rows == 1 ? 3 : rows <= 8 ? most : 2);
}

bool PlanSmem(const SmemDemand& d, uint32_t limit, SmemPlan& plan) {
  BATON_CHECK(d.slot_bytes >= kMmaWarps * 512);  // A k-step of each: see ChunkSteps.
  const uint32_t columns = 8 * d.row_tiles;
  const uint32_t partials = d.row_tiles <= 2 ? kStages<1> * kTeamWarps : kStages<4> * kMmaWarps;
  uint32_t at = 0;
  const auto take = [&at](uint32_t bytes) {
    const uint32_t offset = at;
    at += Align(bytes, 16);
    return offset;
  };
  plan.xs_row_bytes = std::max(d.hidden / 16, d.row_tiles == 1 ? kXsStepsOne : kXsSteps) * 256;
  plan.xs = take(plan.xs_row_bytes * d.row_tiles);
  plan.operand_bytes = d.row_tiles * (plan.xs_row_bytes - kMmaWarps * kTotalBytes<1>);
  // With more than one row tile the norm waits until x is complete everywhere, so until all partial
  // tiles have been read, and the next ones come after it: it lies where they do.
  const uint32_t norm_bytes = Align(d.hidden * 2, 16), sum_bytes = 2 * kMmaWarps * columns * 4;
  if (d.row_tiles == 1) {
    plan.norm = take(norm_bytes);
    plan.norm_partial = take(sum_bytes);
    plan.reduce = take(partials * 512);
  } else {
    plan.reduce = take(std::max(partials * 512, norm_bytes + sum_bytes));
    plan.norm = plan.reduce;
    plan.norm_partial = plan.reduce + norm_bytes;
  }
  plan.slices = take((d.expert_limit + 1) * sizeof(Slice));
  const bool lists = d.row_tiles > 1;
  const uint32_t chosen = columns * (1 + d.experts_per_token);
  // Scores are read in pairs.
  plan.slice_scores = take(2 * (lists ? chosen + 1 : columns * (d.expert_limit + 1)));
  plan.slice_rows = take(lists ? chosen : 0);
  plan.experts = take(d.expert_limit * 6);
  plan.keep = take(2 * d.keep_tiles * 16 * columns * 2);
  plan.misc = take(sizeof(ControlSmem));
  plan.slot_bytes = d.slot_bytes;
  plan.page_slot_count = d.page_slots;
  at = Align(at, 128);
  plan.page_ring = take(d.page_slots * d.page_bytes);
  plan.ring = at;
  plan.slot_count = at < limit ? static_cast<int>((limit - at) / plan.slot_bytes) : 0;
  if (plan.slot_count > kMaxSlots) plan.slot_count = kMaxSlots;
  for (int rows = 1; rows <= 8; ++rows) {
    plan.chunks.gate_up[rows - 1] =
        static_cast<uint8_t>(ChunkSteps(d.slot_bytes, 64 * rows, d.hidden / 16, kMaxChunkSteps));
  }
  for (int full = 0; full < 2; ++full) {
    const int bytes = full ? 512 : 256;
    plan.chunks.hidden[full] =
        static_cast<uint8_t>(ChunkSteps(d.slot_bytes, bytes, d.hidden / 16, kMaxChunkSteps));
    plan.chunks.q_width[full] =
        static_cast<uint8_t>(ChunkSteps(d.slot_bytes, bytes, d.q_width / 16, kMaxSharedSteps));
    plan.chunks.expert_width[full] = static_cast<uint8_t>(
        ChunkSteps(d.slot_bytes, bytes, std::max(1, d.expert_width / 16), kMaxSharedSteps));
  }
  plan.total = at + std::max(plan.slot_count, kLeastSlots) * plan.slot_bytes;
  return plan.slot_count >= kLeastSlots;
}

cudaError_t PrepareDecodeKernels(uint32_t smem_bytes, int* resident_blocks) {
  int device = 0, sms = 0, per_sm = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  int least = 1;
  for (int row_tiles = 1; row_tiles <= 4 && error == cudaSuccess; ++row_tiles) {
    error = cudaFuncSetAttribute(KernelFor(row_tiles), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 smem_bytes);
    if (error != cudaSuccess) break;
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, KernelFor(row_tiles), kThreads,
                                                          smem_bytes);
    if (per_sm < least) least = per_sm;
  }
  *resident_blocks = sms * least;
  return error;
}

cudaError_t LaunchDecodeStep(const DecodeParams& params, cudaStream_t stream) {
  void* arguments[] = {const_cast<DecodeParams*>(&params)};
  return cudaLaunchCooperativeKernel(KernelFor(params.row_tiles), dim3(params.worker_count),
                                     dim3(kThreads), arguments, params.smem.total, stream);
}

}  // namespace baton::cuda
