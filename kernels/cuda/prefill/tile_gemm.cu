#include "kernels/cuda/prefill/tile_gemm.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/tensor_map.h"
#include "kernels/cuda/prefill/wgmma.cuh"

namespace baton::prefill {
namespace {

constexpr int kStages = 4;
constexpr int kThreads = 384;  // One warpgroup feeds the ring, two multiply 64 rows each.
constexpr int kABytes = kGemmTileRows * kGemmTileDepth * 2;
constexpr int kBBytes = kGemmTileColumns * kGemmTileDepth * 2;
constexpr int kStageBytes = kABytes + kBBytes;
constexpr int kSharedBytes = kStages * kStageBytes + 1024 + 2 * kStages * 8;
constexpr int kHalfBytes = 64 * kGemmTileDepth * 2;  // A's rows of the second warpgroup.

struct KernelArgs {
  int n = 0;
  int n_tiles = 0;
  int k_blocks = 0;
  void* out = nullptr;
  int64_t out_pitch = 0;
  int rows = 0;
  const GemmRowTile* row_tiles = nullptr;
  const int* row_tile_count = nullptr;
};

__device__ __forceinline__ GemmRowTile RowTileAt(const KernelArgs& args, int index) {
  if (args.row_tiles != nullptr) return args.row_tiles[index];
  return GemmRowTile{0, index * kGemmTileRows, args.rows, 0};
}

__device__ __forceinline__ int RowTileCount(const KernelArgs& args) {
  if (args.row_tiles != nullptr) return *args.row_tile_count;
  return (args.rows + kGemmTileRows - 1) / kGemmTileRows;
}

__device__ __forceinline__ uint32_t SwiGluPair(float gate0, float up0, float gate1, float up1) {
  const auto silu = [](float gate) {
    const float g = RoundBf16(gate);
    return RoundBf16(__fdividef(g, 1.0f + __expf(-g)));
  };
  return PackBf16(silu(gate0) * RoundBf16(up0), silu(gate1) * RoundBf16(up1));
}

// Packs output chunk `chunk` (8 columns) of the row in the fragment's upper or lower half.
template <GemmOutput kOutput>
__device__ __forceinline__ uint32_t PackChunk(const float (&acc)[128], int chunk, int half) {
  if constexpr (kOutput == GemmOutput::kSwiGlu) {
    const float* gate = acc + 8 * chunk + 2 * half;
    const float* up = gate + 4;
    return SwiGluPair(gate[0], up[0], gate[1], up[1]);
  } else {
    return PackBf16(acc[4 * chunk + 2 * half], acc[4 * chunk + 2 * half + 1]);
  }
}

// Writes a warp's 16 rows as bf16, 16 bytes a lane. row0: the output row of fragment row 0.
template <GemmOutput kOutput>
__device__ __forceinline__ void StoreBf16(const KernelArgs& args, const float (&acc)[128], int row0,
                                          int row_end, int column0) {
  constexpr int kChunks = kOutput == GemmOutput::kSwiGlu ? 16 : 32;
  const int lane = threadIdx.x & 31;
  const int columns = kOutput == GemmOutput::kSwiGlu ? args.n / 2 : args.n;
  __nv_bfloat16* out = static_cast<__nv_bfloat16*>(args.out);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + (lane >> 2) + 8 * half;
#pragma unroll
    for (int quad = 0; quad < kChunks / 4; ++quad) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = PackChunk<kOutput>(acc, 4 * quad + i, half);
      QuadTranspose(words, lane);
      const int column = column0 + 8 * (4 * quad + (lane & 3));
      if (row < row_end && column < columns) {
        *reinterpret_cast<uint4*>(out + row * args.out_pitch + column) =
            make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }
}

__device__ __forceinline__ void StoreFloat(const KernelArgs& args, const float (&acc)[128],
                                           int row0, int row_end, int column0) {
  const int lane = threadIdx.x & 31;
  float* out = static_cast<float*>(args.out);
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    const int row = row0 + (lane >> 2) + 8 * ((i >> 1) & 1);
    const int column = column0 + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1);
    if (row < row_end && column < args.n) out[row * args.out_pitch + column] = acc[i];
  }
}

struct Ring {
  uint8_t* stages;
  uint64_t* full;
  uint64_t* empty;
};

__device__ __forceinline__ void Produce(const CUtensorMap* a_map, const CUtensorMap* b_map,
                                        const KernelArgs& args, const Ring& ring) {
  const int tile_count = RowTileCount(args) * args.n_tiles;
  int stage = 0;
  uint32_t phase = 0;
  for (int tile = blockIdx.x; tile < tile_count; tile += gridDim.x) {
    const GemmRowTile rows = RowTileAt(args, tile / args.n_tiles);
    const int b_row = rows.group * args.n + (tile % args.n_tiles) * kGemmTileColumns;
    for (int block = 0; block < args.k_blocks; ++block) {
      BarrierWait(&ring.empty[stage], phase ^ 1);
      uint8_t* a = ring.stages + stage * kStageBytes;
      BarrierExpect(SmemAddress(&ring.full[stage]), kStageBytes);
      TensorCopy2d(a, a_map, block * kGemmTileDepth, rows.row, &ring.full[stage]);
      TensorCopy2d(a + kABytes, b_map, block * kGemmTileDepth, b_row, &ring.full[stage]);
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
}

template <GemmOutput kOutput>
__device__ __forceinline__ void Consume(const KernelArgs& args, const Ring& ring, int warpgroup) {
  const int tile_count = RowTileCount(args) * args.n_tiles;
  const int thread = threadIdx.x & 127;
  int stage = 0;
  uint32_t phase = 0;
  float acc[128];
  for (int tile = blockIdx.x; tile < tile_count; tile += gridDim.x) {
    const GemmRowTile rows = RowTileAt(args, tile / args.n_tiles);
    int previous = 0;
    for (int block = 0; block < args.k_blocks; ++block) {
      BarrierWait(&ring.full[stage], phase);
      const uint32_t base = SmemAddress(ring.stages + stage * kStageBytes);
      const uint64_t a = SwizzledTile(base + warpgroup * kHalfBytes, 16);
      const uint64_t b = SwizzledTile(base + kABytes, 16);
      PinRegisters(acc);
      WgmmaFence();
#pragma unroll
      for (int step = 0; step < kGemmTileDepth / 16; ++step) {
        WgmmaSharedN256(acc, a + 2 * step, b + 2 * step, block != 0 || step != 0);
      }
      WgmmaCommit();
      PinRegisters(acc);
      if (block != 0) {
        WgmmaWait<1>();
        if (thread == 0) BarrierArrive(SmemAddress(&ring.empty[previous]));
      }
      previous = stage;
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
    WgmmaWait<0>();
    PinRegisters(acc);
    if (thread == 0) BarrierArrive(SmemAddress(&ring.empty[previous]));
    const int row0 = rows.row + 64 * warpgroup + 16 * (thread >> 5);
    const int column0 = (tile % args.n_tiles) * kGemmTileColumns;
    if constexpr (kOutput == GemmOutput::kFloat) {
      StoreFloat(args, acc, row0, rows.row_end, column0);
    } else if constexpr (kOutput == GemmOutput::kSwiGlu) {
      StoreBf16<kOutput>(args, acc, row0, rows.row_end, column0 / 2);
    } else {
      StoreBf16<kOutput>(args, acc, row0, rows.row_end, column0);
    }
  }
}

template <GemmOutput kOutput>
__global__ void __launch_bounds__(kThreads, 1)
    TileGemmKernel(const __grid_constant__ CUtensorMap a_map,
                   const __grid_constant__ CUtensorMap b_map, const KernelArgs args) {
  extern __shared__ uint8_t shared[];
  Ring ring;
  ring.stages = shared + ((1024 - (SmemAddress(shared) & 1023)) & 1023);
  ring.full = reinterpret_cast<uint64_t*>(ring.stages + kStages * kStageBytes);
  ring.empty = ring.full + kStages;
  const int warpgroup = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    PrefetchTensorMap(&a_map);
    PrefetchTensorMap(&b_map);
    for (int i = 0; i < kStages; ++i) {
      BarrierInit(SmemAddress(&ring.full[i]), 1);
      BarrierInit(SmemAddress(&ring.empty[i]), 2);
    }
    PublishBarriers();
  }
  __syncthreads();
  if (warpgroup == 0) {
    LowerRegisters<40>();
    if (threadIdx.x == 0) Produce(&a_map, &b_map, args, ring);
  } else {
    RaiseRegisters<232>();
    Consume<kOutput>(args, ring, warpgroup - 1);
  }
}

template <GemmOutput kOutput>
absl::Status Launch(const TileGemmCall& call, int multiprocessors, cudaStream_t stream) {
  KernelArgs args;
  args.n = call.n;
  args.n_tiles = (call.n + kGemmTileColumns - 1) / kGemmTileColumns;
  args.k_blocks = (call.k + kGemmTileDepth - 1) / kGemmTileDepth;
  args.out = call.out;
  args.out_pitch = call.out_pitch;
  args.rows = call.rows;
  args.row_tiles = call.row_tiles;
  args.row_tile_count = call.row_tile_count;
  int grid = multiprocessors;
  if (call.row_tiles == nullptr) {
    if (call.rows <= 0) return absl::OkStatus();
    const int64_t tiles = int64_t{args.n_tiles} * ((call.rows + kGemmTileRows - 1) / kGemmTileRows);
    grid = static_cast<int>(std::min<int64_t>(grid, tiles));
  }
  BATON_PREFILL_CUDA(cudaFuncSetAttribute(
      TileGemmKernel<kOutput>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  TileGemmKernel<kOutput><<<grid, kThreads, kSharedBytes, stream>>>(*call.a_map, *call.b_map, args);
  BATON_PREFILL_LAUNCHED("TileGemmKernel");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CUtensorMap> MakeGemmInputMap(const __nv_bfloat16* a, int64_t rows, int k,
                                             int64_t pitch) {
  MatrixMapShape shape;
  shape.rows = rows;
  shape.columns = k;
  shape.pitch_elements = pitch;
  shape.box_rows = kGemmTileRows;
  shape.box_columns = kGemmTileDepth;
  return MakeMatrixMap(a, shape);
}

absl::StatusOr<CUtensorMap> MakeGemmWeightMap(const __nv_bfloat16* b, int64_t rows, int k) {
  MatrixMapShape shape;
  shape.rows = rows;
  shape.columns = k;
  shape.pitch_elements = k;
  shape.box_rows = kGemmTileColumns;
  shape.box_columns = kGemmTileDepth;
  return MakeMatrixMap(b, shape);
}

absl::Status LaunchTileGemm(const TileGemmCall& call, int multiprocessors, cudaStream_t stream) {
  if (call.k % 8 != 0 || (call.output == GemmOutput::kBf16 && call.n % 8 != 0) ||
      (call.output == GemmOutput::kSwiGlu && call.n % 16 != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("matrix product with n = ", call.n, ", k = ", call.k,
                     ": k must be a multiple of 8, n of 8 (bf16 output) or of 16 (gated output)"));
  }
  switch (call.output) {
    case GemmOutput::kBf16:
      return Launch<GemmOutput::kBf16>(call, multiprocessors, stream);
    case GemmOutput::kFloat:
      return Launch<GemmOutput::kFloat>(call, multiprocessors, stream);
    case GemmOutput::kSwiGlu:
      return Launch<GemmOutput::kSwiGlu>(call, multiprocessors, stream);
  }
  return absl::InternalError("unknown GemmOutput");
}

}  // namespace baton::prefill
