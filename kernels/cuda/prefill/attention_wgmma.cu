#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/attention.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/softmax.cuh"
#include "kernels/cuda/prefill/tensor_map.h"
#include "kernels/cuda/prefill/wgmma.cuh"

namespace baton::prefill {
namespace {

constexpr int kKeys = 128;  // A block: two pages.
constexpr int kStages = 3;
// Two warpgroups own 64 rows each. There is no warp of its own for the copies: with 256 threads
// everyone may have 255 registers, which the accumulators need. The first thread of one warpgroup
// fetches keys, that of the other values, two blocks ahead.
constexpr int kThreads = 256;
// Tiles in shared memory are halves of 64 columns: [half][128 rows][128 bytes], swizzled.
constexpr int kHalfBytes = 128 * 128;
constexpr int kPageHalfBytes = kPageTokens * 128;

template <int kDim>
constexpr int kTileBytes = kDim / 64 * kHalfBytes;
template <int kDim>
constexpr int kSharedBytes = (1 + 2 * kStages) * kTileBytes<kDim> + 1024 + 128;

struct KernelArgs {
  __nv_bfloat16* out;
  int64_t out_pitch;
  int group;  // Query heads per KV head.
  int tile_tokens;
  int kv_heads;
  int window_keys;  // Larger than any position where there is no window.
  bool window_group;
  float scale_log2;
  int page_rows;   // Rows of the KV map per page.
  int layer_rows;  // First row of the layer in a page.
  const AttentionTile* tiles;
  const SegmentPages* segments;
  const uint32_t* pages;
};

// Three tiles of K or of V.
struct Ring {
  uint8_t* tiles;
  uint64_t* full;
  uint64_t* empty;
  int head_rows;  // First row of the head's tile in the layer's slice of a page.
};

struct Shared {
  uint8_t* queries;
  uint64_t* query_full;
  Ring keys;
  Ring values;
};

template <int kDim>
__device__ __forceinline__ Shared CarveShared(uint8_t* raw, int kv_heads) {
  Shared shared;
  shared.queries = raw + ((1024 - (SmemAddress(raw) & 1023)) & 1023);
  shared.keys.tiles = shared.queries + kTileBytes<kDim>;
  shared.values.tiles = shared.keys.tiles + kStages * kTileBytes<kDim>;
  uint8_t* end = shared.values.tiles + kStages * kTileBytes<kDim>;
  shared.keys.full = reinterpret_cast<uint64_t*>(end);
  shared.keys.empty = shared.keys.full + kStages;
  shared.values.full = shared.keys.empty + kStages;
  shared.values.empty = shared.values.full + kStages;
  shared.query_full = shared.values.empty + kStages;
  shared.keys.head_rows = blockIdx.x * kPageTokens;
  shared.values.head_rows = (kv_heads + blockIdx.x) * kPageTokens;
  return shared;
}

// Fetches block number `index` of the tile (from 0), K or V: two pages. Pages outside [first_page,
// last_page] hold masked keys only and are replaced by one inside, whose contents are finite.
template <int kDim>
__device__ __forceinline__ void FetchBlock(const CUtensorMap* kv_map, const KernelArgs& args,
                                           const Ring& ring, const TileRange& range, int index) {
  const int block = range.first_block + index;
  if (block > range.last_block) return;
  const int stage = index % kStages;
  uint8_t* tile = ring.tiles + stage * kTileBytes<kDim>;
  BarrierWait(&ring.empty[stage], ((index / kStages) & 1) ^ 1);
  BarrierExpect(SmemAddress(&ring.full[stage]), kTileBytes<kDim>);
#pragma unroll
  for (int page = 0; page < 2; ++page) {
    const int logical = min(max(2 * block + page, range.first_page), range.last_page);
    const int row =
        PageId(args, range.segment, logical) * args.page_rows + args.layer_rows + ring.head_rows;
#pragma unroll
    for (int half = 0; half < kDim / 64; ++half) {
      TensorCopy2d(tile + half * kHalfBytes + page * kPageHalfBytes, kv_map, half * 64, row,
                   &ring.full[stage]);
    }
  }
}

// Begins the copies: queries and keys by the first thread, values by the second warpgroup's.
template <int kDim>
__device__ __forceinline__ void FetchFirst(const CUtensorMap* query_map, const CUtensorMap* kv_map,
                                           const KernelArgs& args, const Shared& shared,
                                           const TileRange& range) {
  if (threadIdx.x == 0) {
    BarrierExpect(SmemAddress(shared.query_full), kDim / 64 * args.tile_tokens * args.group * 128);
#pragma unroll
    for (int half = 0; half < kDim / 64; ++half) {
      TensorCopy3d(shared.queries + half * kHalfBytes, query_map, half * 64,
                   blockIdx.x * args.group, range.tile.row, shared.query_full);
    }
    for (int i = 0; i < 3; ++i) FetchBlock<kDim>(kv_map, args, shared.keys, range, i);
  }
  if (threadIdx.x == 128) {
    for (int i = 0; i < 2; ++i) FetchBlock<kDim>(kv_map, args, shared.values, range, i);
  }
}

// Starts scores [64, 128] = Q K^T of one block.
template <int kDim>
__device__ __forceinline__ void StartScores(float (&scores)[64], uint64_t queries, uint64_t keys) {
  PinRegisters(scores);
  WgmmaFence();
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    const uint64_t offset = (step / 4 * kHalfBytes + step % 4 * 32) >> 4;
    WgmmaSharedN128(scores, queries + offset, keys + offset, step != 0);
  }
  WgmmaCommit();
  PinRegisters(scores);
}

// Starts out [64, kDim] += P V of one block.
template <int kDim>
__device__ __forceinline__ void StartValues(float (&out)[kDim / 2], const uint32_t (&weights)[8][4],
                                            uint64_t values) {
  PinRegisters(out);
  WgmmaFence();
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    const uint64_t v = values + ((step * 16 * 128) >> 4);
    if constexpr (kDim == 128) {
      WgmmaRegistersN128(out, weights[step], v);
    } else {
      WgmmaRegistersN64(out, weights[step], v);
    }
  }
  WgmmaCommit();
  PinRegisters(out);
}

__device__ __forceinline__ void PackWeights(const float (&scores)[64], uint32_t (&weights)[8][4]) {
#pragma unroll
  for (int step = 0; step < 8; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[step][i] = PackBf16(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
    }
  }
}

// Writes out / sum of the warp's valid rows.
template <int kDim>
__device__ __forceinline__ void StoreRows(const KernelArgs& args, const TileRange& range,
                                          const float (&out)[kDim / 2], RowSums& sums, int row0) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + (lane >> 2) + 8 * half;
    const int token = row / args.group;
    const int head = blockIdx.x * args.group + row % args.group;
    const float inverse = 1.0f / QuadSum(sums.sum[half]);
    __nv_bfloat16* target = args.out + (range.tile.row + token) * args.out_pitch + head * kDim;
#pragma unroll
    for (int quad = 0; quad < kDim / 32; ++quad) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = out + 4 * (4 * quad + i) + 2 * half;
        words[i] = PackBf16(pair[0] * inverse, pair[1] * inverse);
      }
      QuadTranspose(words, lane);
      if (token < range.tile.tokens) {
        *reinterpret_cast<uint4*>(target + 8 * (4 * quad + (lane & 3))) =
            make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }
}

template <int kDim>
__device__ __forceinline__ void AttendTile(const CUtensorMap* kv_map, const KernelArgs& args,
                                           const Shared& shared, const TileRange& range) {
  const int warpgroup = threadIdx.x / 128;
  const int thread = threadIdx.x & 127;
  const int lane = threadIdx.x & 31;
  const int row0 = 64 * warpgroup + 16 * (thread >> 5);
  RowMask mask;
  mask.query[0] = range.tile.position + (row0 + (lane >> 2)) / args.group;
  mask.query[1] = range.tile.position + (row0 + (lane >> 2) + 8) / args.group;
  mask.window_keys = args.window_keys;
  const uint64_t queries = SwizzledTile(SmemAddress(shared.queries) + warpgroup * 64 * 128, 16);
  const uint64_t keys = SwizzledTile(SmemAddress(shared.keys.tiles), 16);
  const uint64_t values = SwizzledTile(SmemAddress(shared.values.tiles), kHalfBytes);
  constexpr uint64_t kStageStep = kTileBytes<kDim> / 16;

  float out[kDim / 2];
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) out[i] = 0.0f;
  float scores[64];
  uint32_t weights[8][4];
  RowSums sums;
  float correction[2];
  BarrierWait(shared.query_full, 0);
  BarrierWait(&shared.keys.full[0], 0);
  StartScores<kDim>(scores, queries, keys);
  WgmmaWait<0>();
  PinRegisters(scores);
  if (thread == 0) BarrierArrive(SmemAddress(&shared.keys.empty[0]));
  SoftmaxBlock(scores, sums, correction, mask, range, range.first_block, args.scale_log2);
  PackWeights(scores, weights);

  int i = 1;
  for (int block = range.first_block + 1; block <= range.last_block; ++block, ++i) {
    const int stage = i % kStages;
    const int last_stage = (i - 1) % kStages;
    BarrierWait(&shared.keys.full[stage], (i / kStages) & 1);
    StartScores<kDim>(scores, queries, keys + stage * kStageStep);
    BarrierWait(&shared.values.full[last_stage], ((i - 1) / kStages) & 1);
    StartValues<kDim>(out, weights, values + last_stage * kStageStep);
    if (threadIdx.x == 0) FetchBlock<kDim>(kv_map, args, shared.keys, range, i + 2);
    if (threadIdx.x == 128) FetchBlock<kDim>(kv_map, args, shared.values, range, i + 1);
    __syncwarp();
    WgmmaWait<1>();
    PinRegisters(scores);
    if (thread == 0) BarrierArrive(SmemAddress(&shared.keys.empty[stage]));
    SoftmaxBlock(scores, sums, correction, mask, range, block, args.scale_log2);
    WgmmaWait<0>();
    PinRegisters(out);
    PinRegisters(scores);  // Packed only now, when the old weights' registers are free.
    if (thread == 0) BarrierArrive(SmemAddress(&shared.values.empty[last_stage]));
#pragma unroll
    for (int j = 0; j < kDim / 2; ++j) out[j] *= correction[(j >> 1) & 1];
    PackWeights(scores, weights);
  }
  const int stage = (i - 1) % kStages;
  BarrierWait(&shared.values.full[stage], ((i - 1) / kStages) & 1);
  StartValues<kDim>(out, weights, values + stage * kStageStep);
  WgmmaWait<0>();
  PinRegisters(out);
  StoreRows<kDim>(args, range, out, sums, row0);
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    WgmmaAttentionKernel(const __grid_constant__ CUtensorMap query_map,
                         const __grid_constant__ CUtensorMap kv_map, const KernelArgs args) {
  extern __shared__ uint8_t raw[];
  const Shared shared = CarveShared<kDim>(raw, args.kv_heads);
  if (threadIdx.x == 0) {
    PrefetchTensorMap(&query_map);
    PrefetchTensorMap(&kv_map);
    BarrierInit(SmemAddress(shared.query_full), 1);
    for (int i = 0; i < kStages; ++i) {
      BarrierInit(SmemAddress(&shared.keys.full[i]), 1);
      BarrierInit(SmemAddress(&shared.values.full[i]), 1);
      BarrierInit(SmemAddress(&shared.keys.empty[i]), 2);
      BarrierInit(SmemAddress(&shared.values.empty[i]), 2);
    }
    PublishBarriers();
  }
  const TileRange range = TileRangeOf(args, kKeys);
  __syncthreads();
  FetchFirst<kDim>(&query_map, &kv_map, args, shared, range);
  __syncwarp();
  AttendTile<kDim>(&kv_map, args, shared, range);
}

template <int kDim>
absl::Status Launch(const AttentionCall& call, const KernelArgs& args, cudaStream_t stream) {
  BATON_PREFILL_CUDA(cudaFuncSetAttribute(
      WgmmaAttentionKernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes<kDim>));
  const dim3 grid(call.kv_heads, call.tile_count);
  WgmmaAttentionKernel<kDim>
      <<<grid, kThreads, kSharedBytes<kDim>, stream>>>(*call.query_map, *call.kv_map, args);
  BATON_PREFILL_LAUNCHED("WgmmaAttentionKernel");
  return absl::OkStatus();
}

}  // namespace

namespace internal {

absl::Status LaunchWgmmaAttention(const AttentionCall& call, cudaStream_t stream) {
  const int row_bytes = call.head_dim * 2;
  KernelArgs args;
  args.out = call.out;
  args.out_pitch = int64_t{call.query_heads} * call.head_dim;
  args.group = call.query_heads / call.kv_heads;
  args.tile_tokens = AttentionTileTokens(AttentionKernel::kWgmma, call.query_heads, call.kv_heads);
  args.kv_heads = call.kv_heads;
  args.window_keys = call.window_keys > 0 ? call.window_keys : kNoWindow;
  args.window_group = call.window_group;
  args.scale_log2 = static_cast<float>(M_LOG2E / std::sqrt(static_cast<double>(call.head_dim)));
  args.page_rows = static_cast<int>(call.kv.page_bytes / row_bytes);
  args.layer_rows = static_cast<int>(call.kv.layer_offset / row_bytes);
  args.tiles = call.tiles;
  args.segments = call.segments;
  args.pages = call.pages;
  if (call.head_dim == 128) return Launch<128>(call, args, stream);
  if (call.head_dim == 64) return Launch<64>(call, args, stream);
  return absl::InvalidArgumentError(
      absl::StrCat("wgmma attention has head_dim 64 and 128, not ", call.head_dim));
}

}  // namespace internal
}  // namespace baton::prefill
