#include "kernels/cuda/prefill/moe_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/ptx.cuh"

namespace baton::prefill {
namespace {

constexpr int kRouteThreads = 256;  // One warp per token.
constexpr int kPermuteThreads = 1024;
constexpr int kLogitsPerLane = kMaxExperts / 32;

// A bf16 logit and its expert as one key: larger logit first, then the lower id. Non-NaN logits
// only order correctly; a NaN sorts by its bits and cannot fault.
__device__ __forceinline__ uint32_t OrderKey(uint16_t logit, int expert) {
  // -0 equals +0.
  const uint16_t bits = logit == 0x8000 ? 0 : logit;
  const uint16_t ordered = bits & 0x8000 ? ~bits : bits | 0x8000;
  return (uint32_t{ordered} << 16) | (0xffffu - static_cast<uint32_t>(expert));
}

__device__ __forceinline__ float LogitOfKey(uint32_t key) {
  const uint16_t ordered = key >> 16;
  const uint16_t bits = ordered & 0x8000 ? ordered & 0x7fff : ~ordered;
  return __uint_as_float(uint32_t{bits} << 16);
}

__device__ __forceinline__ uint32_t WarpMax(uint32_t value) {
  return __reduce_max_sync(0xffffffffu, value);
}

__device__ __forceinline__ float SumOverSlots(float value, int lane, int slots) {
  float sum = 0.0f;
  for (int slot = 0; slot < slots; ++slot) sum += __shfl_sync(0xffffffffu, value, slot);
  return sum;
}

// Lane s < slots holds the key of the s-th largest logit; returns the weight of that expert.
__device__ __forceinline__ float SlotWeight(const RouteCall& call, uint32_t key, int lane) {
  const bool used = lane < call.experts_per_token;
  const float logit = used ? LogitOfKey(key) : 0.0f;
  if (call.softmax) {
    const float max = __shfl_sync(0xffffffffu, logit, 0);
    const float e = used ? __expf(logit - max) : 0.0f;
    return RoundBf16(e / SumOverSlots(e, lane, call.experts_per_token));
  }
  float weight = used ? RoundBf16(1.0f / (1.0f + __expf(-logit))) : 0.0f;
  if (call.norm_topk) {
    const float sum = RoundBf16(SumOverSlots(weight, lane, call.experts_per_token));
    weight = RoundBf16(weight / sum);
  }
  return weight;
}

__global__ void __launch_bounds__(kRouteThreads) RouteKernel(const RouteCall call) {
  const int row = blockIdx.x * (kRouteThreads / 32) + (threadIdx.x >> 5);
  const int lane = threadIdx.x & 31;
  if (row >= call.rows) return;
  const uint16_t* logits = reinterpret_cast<const uint16_t*>(call.logits) + row * call.pitch;
  uint32_t keys[kLogitsPerLane];
#pragma unroll
  for (int i = 0; i < kLogitsPerLane; ++i) {
    const int expert = lane + 32 * i;
    keys[i] = expert < call.expert_count ? OrderKey(logits[expert], expert) : 0u;
  }
  uint32_t chosen = 0u;  // Lane s: the s-th largest.
  uint32_t below = 0xffffffffu;
  for (int slot = 0; slot < call.experts_per_token; ++slot) {
    uint32_t best = 0u;
#pragma unroll
    for (int i = 0; i < kLogitsPerLane; ++i) {
      if (keys[i] < below && keys[i] > best) best = keys[i];
    }
    below = WarpMax(best);
    if (lane == slot) chosen = below;
  }
  const float weight = SlotWeight(call, chosen, lane);
  const int expert = 0xffff - static_cast<int>(chosen & 0xffffu);
  int rank = 0;  // Among the row's experts by ascending id.
  for (int slot = 0; slot < call.experts_per_token; ++slot) {
    rank += __shfl_sync(0xffffffffu, expert, slot) < expert ? 1 : 0;
  }
  if (lane < call.experts_per_token) {
    const int64_t target = int64_t{row} * call.experts_per_token + rank;
    call.slot_experts[target] = expert;
    call.slot_weights[target] = weight;
    atomicAdd(&call.expert_rows[expert], 1);
  }
}

// Exclusive prefix of `count` over the block in shared memory; returns it and sets the total.
__device__ __forceinline__ int BlockPrefix(int count, int* warp_totals, int& total) {
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  int inclusive = count;
#pragma unroll
  for (int offset = 1; offset < 32; offset <<= 1) {
    const int other = __shfl_up_sync(0xffffffffu, inclusive, offset);
    if (lane >= offset) inclusive += other;
  }
  __syncthreads();
  if (lane == 31) warp_totals[warp] = inclusive;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int i = 0; i < static_cast<int>(blockDim.x / 32); ++i) {
    if (i < warp) before += warp_totals[i];
    total += warp_totals[i];
  }
  return before + inclusive - count;
}

// Thread e < expert_count of block 0 lists expert e's row tiles.
__device__ __forceinline__ void ListRowTiles(const PermuteCall& call, int* warp_totals) {
  const int expert = threadIdx.x;
  const int rows = expert < call.expert_count ? call.expert_rows[expert] : 0;
  const int tiles = (rows + kGemmTileRows - 1) / kGemmTileRows;
  int total_rows, total_tiles;
  const int row_begin = BlockPrefix(rows, warp_totals, total_rows);
  const int tile_begin = BlockPrefix(tiles, warp_totals, total_tiles);
  for (int i = 0; i < tiles; ++i) {
    call.row_tiles[tile_begin + i] =
        GemmRowTile{expert, row_begin + i * kGemmTileRows, row_begin + rows, 0};
  }
  if (threadIdx.x == 0) *call.row_tile_count = total_tiles;
}

// Block e places the slots of expert e; each thread owns a contiguous stretch of slots, so that the
// order within an expert is that of the slots.
__global__ void __launch_bounds__(kPermuteThreads) PermuteKernel(const PermuteCall call) {
  __shared__ int warp_totals[kPermuteThreads / 32];
  __shared__ int expert_begin;
  const int expert = blockIdx.x;
  if (expert == 0) ListRowTiles(call, warp_totals);
  {
    const int rows = static_cast<int>(threadIdx.x) < expert ? call.expert_rows[threadIdx.x] : 0;
    int total;
    BlockPrefix(rows, warp_totals, total);
    if (threadIdx.x == 0) expert_begin = total;
  }
  __syncthreads();
  if (call.expert_rows[expert] == 0) return;
  const int warp = threadIdx.x >> 5;
  const int lane = threadIdx.x & 31;
  const int per_warp = (call.slots + kPermuteThreads - 1) / kPermuteThreads * 32;
  const int begin = min(warp * per_warp, call.slots);
  const int end = min(begin + per_warp, call.slots);
  int matches = 0;  // Of the warp's stretch.
  for (int i = begin; i < end; i += 32) {
    const bool match = i + lane < end && call.slot_experts[i + lane] == expert;
    matches += __popc(__ballot_sync(0xffffffffu, match));
  }
  int total;
  const int prefix = BlockPrefix(lane == 0 ? matches : 0, warp_totals, total);
  int row = expert_begin + __shfl_sync(0xffffffffu, prefix, 0);
  for (int i = begin; i < end; i += 32) {
    const bool match = i + lane < end && call.slot_experts[i + lane] == expert;
    const uint32_t ballot = __ballot_sync(0xffffffffu, match);
    if (match) {
      const int target = row + __popc(ballot & ((1u << lane) - 1u));
      call.permuted_slots[target] = i + lane;
      call.slot_rows[i + lane] = target;
    }
    row += __popc(ballot);
  }
}

}  // namespace

absl::Status LaunchRoute(const RouteCall& call, cudaStream_t stream) {
  if (call.expert_count > kMaxExperts || call.experts_per_token > kMaxExpertsPerToken ||
      call.experts_per_token > call.expert_count || call.experts_per_token < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(call.experts_per_token, " of ", call.expert_count,
                     " experts per token; at most ", kMaxExpertsPerToken, " of ", kMaxExperts));
  }
  if (call.rows == 0) return absl::OkStatus();
  constexpr int kRows = kRouteThreads / 32;
  RouteKernel<<<(call.rows + kRows - 1) / kRows, kRouteThreads, 0, stream>>>(call);
  BATON_PREFILL_LAUNCHED("RouteKernel");
  return absl::OkStatus();
}

absl::Status LaunchPermute(const PermuteCall& call, cudaStream_t stream) {
  PermuteKernel<<<call.expert_count, kPermuteThreads, 0, stream>>>(call);
  BATON_PREFILL_LAUNCHED("PermuteKernel");
  return absl::OkStatus();
}

}  // namespace baton::prefill
