// TileGemm: C = A B^T in bf16 with fp32 accumulation by wgmma, for one matrix or for groups of rows
// (one group per expert) whose bounds are known on the device only. Each output row depends on its
// own input row and on B alone, whatever the number of rows, so results do not change with chunking
// or packing.
//
// A [rows, k] bf16 row-major; B [groups * n, k] bf16 row-major; k a multiple of 8; pitches
// multiples of 8 elements.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::prefill {

inline constexpr int kGemmTileRows = 128;
inline constexpr int kGemmTileColumns = 256;
inline constexpr int kGemmTileDepth = 64;

enum class GemmOutput {
  kBf16,    // [rows, n] bf16.
  kFloat,   // [rows, n] float32.
  kSwiGlu,  // B's rows alternate in groups of 8: gate 0-7, up 0-7, gate 8-15, …; the output is
            // [rows, n / 2] bf16: bf16(bf16(silu(bf16(gate))) * bf16(up)).
};

// One tile of rows of a group: rows [row, min(row + kGemmTileRows, row_end)) times group `group`.
struct GemmRowTile {
  int group = 0;
  int row = 0;
  int row_end = 0;
  int unused = 0;
};

struct TileGemmCall {
  const CUtensorMap* a_map = nullptr;  // From MakeGemmInputMap; host memory.
  const CUtensorMap* b_map = nullptr;  // From MakeGemmWeightMap; host memory.
  int n = 0;                           // Columns of a group: rows of B per group.
  int k = 0;
  void* out = nullptr;
  int64_t out_pitch = 0;  // Elements.
  GemmOutput output = GemmOutput::kBf16;
  int rows = 0;                            // Without groups: rows of A.
  const GemmRowTile* row_tiles = nullptr;  // With groups: device array …
  const int* row_tile_count = nullptr;     // … and its length, on the device.
};

absl::StatusOr<CUtensorMap> MakeGemmInputMap(const __nv_bfloat16* a, int64_t rows, int k,
                                             int64_t pitch);
absl::StatusOr<CUtensorMap> MakeGemmWeightMap(const __nv_bfloat16* b, int64_t rows, int k);

// Enqueues the product on `stream`; `multiprocessors` bounds the persistent grid.
absl::Status LaunchTileGemm(const TileGemmCall& call, int multiprocessors, cudaStream_t stream);

}  // namespace baton::prefill
