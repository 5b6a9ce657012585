#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/attention.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/kv_tile.h"
#include "kernels/cuda/prefill/softmax.cuh"

namespace baton::prefill {
namespace {

constexpr int kThreads = 128;  // Four warps of 16 rows.

struct KernelArgs {
  const __nv_bfloat16* queries;
  int64_t query_pitch;
  __nv_bfloat16* out;
  int64_t out_pitch;
  int group;
  int kv_heads;
  int window_keys;
  bool window_group;
  float scale_log2;
  KvLayerView kv;
  const AttentionTile* tiles;
  const SegmentPages* segments;
  const uint32_t* pages;
};

__device__ __forceinline__ void Mma(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two 8x8 matrices of [16 keys, 8 columns], transposed: the B fragment of P V.
__device__ __forceinline__ void LoadTransposed(uint32_t& b0, uint32_t& b1, const uint8_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(b0), "=r"(b1)
               : "r"(SmemAddress(row)));
}

// Query fragments of the thread's two rows; rows that do not exist are zero.
template <int kDim>
__device__ __forceinline__ void LoadQueries(const KernelArgs& args, const TileRange& range,
                                            int row0, uint32_t (&fragments)[kDim / 16][4]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + (lane >> 2) + 8 * half;
    const int token = row / args.group;
    const int head = blockIdx.x * args.group + row % args.group;
    const bool valid = token < range.tile.tokens;
    const __nv_bfloat16* source =
        args.queries + (range.tile.row + token) * args.query_pitch + head * kDim + 2 * (lane & 3);
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        fragments[step][half + 2 * part] =
            valid ? *reinterpret_cast<const uint32_t*>(source + 16 * step + 8 * part) : 0u;
      }
    }
  }
}

template <int kDim>
__device__ __forceinline__ void LoadPage(uint8_t* keys, uint8_t* values, const KernelArgs& args,
                                         const TileRange& range, int logical) {
  constexpr uint64_t kBytes = kPageTokens * kDim * 2;
  const int page = PageId(args, range.segment, logical);
  const std::byte* tile =
      args.kv.base + page * args.kv.page_bytes + args.kv.layer_offset + blockIdx.x * kBytes;
  for (int offset = threadIdx.x * 16; offset < static_cast<int>(kBytes); offset += kThreads * 16) {
    AsyncCopy16(SmemAddress(keys + offset), tile + offset);
    AsyncCopy16(SmemAddress(values + offset), tile + args.kv_heads * kBytes + offset);
  }
  AsyncCopyWait();
}

// scores [16, 64] = Q K^T of one page.
template <int kDim>
__device__ __forceinline__ void Scores(const uint32_t (&queries)[kDim / 16][4], const uint8_t* keys,
                                       float (&scores)[32]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int chunk = 0; chunk < 8; ++chunk) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[4 * chunk + i] = 0.0f;
    const int key = 8 * chunk + (lane >> 2);
    const uint8_t* row = keys + key * kDim * 2 + 4 * (lane & 3);
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      const int u0 = SwizzledUnit<kDim>(2 * step, key);
      const int u1 = SwizzledUnit<kDim>(2 * step + 1, key);
      Mma(scores + 4 * chunk, queries[step], *reinterpret_cast<const uint32_t*>(row + 16 * u0),
          *reinterpret_cast<const uint32_t*>(row + 16 * u1));
    }
  }
}

// out [16, kDim] += P V of one page.
template <int kDim>
__device__ __forceinline__ void AddValues(const float (&scores)[32], const uint8_t* values,
                                          float (&out)[kDim / 2]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    uint32_t weights[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[i] = PackBf16(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
    }
    const int key = 16 * step + (lane & 15);
#pragma unroll
    for (int chunk = 0; chunk < kDim / 8; ++chunk) {
      uint32_t b0, b1;
      LoadTransposed(b0, b1, values + key * kDim * 2 + 16 * SwizzledUnit<kDim>(chunk, key));
      Mma(out + 4 * chunk, weights, b0, b1);
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads) MmaAttentionKernel(const KernelArgs args) {
  __shared__ alignas(128) uint8_t keys[kPageTokens * kDim * 2];
  __shared__ alignas(128) uint8_t values[kPageTokens * kDim * 2];
  const TileRange range = TileRangeOf(args, kPageTokens);
  const int lane = threadIdx.x & 31;
  const int row0 = 16 * (threadIdx.x >> 5);
  RowMask mask;
  mask.query[0] = range.tile.position + (row0 + (lane >> 2)) / args.group;
  mask.query[1] = range.tile.position + (row0 + (lane >> 2) + 8) / args.group;
  mask.window_keys = args.window_keys;
  uint32_t queries[kDim / 16][4];
  LoadQueries<kDim>(args, range, row0, queries);
  float out[kDim / 2];
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) out[i] = 0.0f;
  RowSums sums;
  float correction[2];
  for (int block = range.first_block; block <= range.last_block; ++block) {
    __syncthreads();
    LoadPage<kDim>(keys, values, args, range, block);
    __syncthreads();
    float scores[32];
    Scores<kDim>(queries, keys, scores);
    SoftmaxBlock(scores, sums, correction, mask, range, block, args.scale_log2);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i] *= correction[(i >> 1) & 1];
    AddValues<kDim>(scores, values, out);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + (lane >> 2) + 8 * half;
    const int token = row / args.group;
    const int head = blockIdx.x * args.group + row % args.group;
    const float inverse = 1.0f / QuadSum(sums.sum[half]);
    if (token >= range.tile.tokens) continue;
    __nv_bfloat16* target = args.out + (range.tile.row + token) * args.out_pitch + head * kDim;
#pragma unroll
    for (int chunk = 0; chunk < kDim / 8; ++chunk) {
      const float* pair = out + 4 * chunk + 2 * half;
      *reinterpret_cast<uint32_t*>(target + 8 * chunk + 2 * (lane & 3)) =
          PackBf16(pair[0] * inverse, pair[1] * inverse);
    }
  }
}

template <int kDim>
absl::Status Launch(const AttentionCall& call, const KernelArgs& args, cudaStream_t stream) {
  MmaAttentionKernel<kDim><<<dim3(call.kv_heads, call.tile_count), kThreads, 0, stream>>>(args);
  BATON_PREFILL_LAUNCHED("MmaAttentionKernel");
  return absl::OkStatus();
}

}  // namespace

namespace internal {

absl::Status LaunchMmaAttention(const AttentionCall& call, cudaStream_t stream) {
  KernelArgs args;
  args.queries = call.queries;
  args.query_pitch = call.query_pitch;
  args.out = call.out;
  args.out_pitch = int64_t{call.query_heads} * call.head_dim;
  args.group = call.query_heads / call.kv_heads;
  args.kv_heads = call.kv_heads;
  args.window_keys = call.window_keys > 0 ? call.window_keys : kNoWindow;
  args.window_group = call.window_group;
  args.scale_log2 = static_cast<float>(M_LOG2E / std::sqrt(static_cast<double>(call.head_dim)));
  args.kv = call.kv;
  args.tiles = call.tiles;
  args.segments = call.segments;
  args.pages = call.pages;
  if (call.head_dim == 128) return Launch<128>(call, args, stream);
  if (call.head_dim == 64) return Launch<64>(call, args, stream);
  if (call.head_dim == 32) return Launch<32>(call, args, stream);
  return absl::InvalidArgumentError(
      absl::StrCat("attention has head_dim 32, 64 and 128, not ", call.head_dim));
}

}  // namespace internal
}  // namespace baton::prefill
