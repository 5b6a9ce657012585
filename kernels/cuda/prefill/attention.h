// Attention of a prefill chunk over paged K/V: causal, with or without a sliding window, grouped
// query heads. A tile is a few consecutive tokens of one segment times the query heads of one KV
// head, packed as rows (token, head). Keys are visited in blocks aligned to absolute positions, so
// a row's result does not depend on how the prompt was cut into chunks and tiles.
//
// Two kernels with one meaning: wgmma fed by the copy engine (head_dim 64 and 128, the fast one),
// and mma.sync (head_dim 32, 64, 128), which also cross-checks the first.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/prefill/chunk_plan.h"

namespace baton::prefill {

// Where one layer's K/V tiles lie in an arena: tile (page, is_v, head) begins at
// base + page * page_bytes + layer_bytes_offset + (is_v * kv_heads + head) * 64 * head_dim * 2.
struct KvLayerView {
  std::byte* base = nullptr;  // Page 0 of the layer's group.
  uint64_t page_bytes = 0;
  uint64_t layer_offset = 0;
  uint32_t page_count = 0;
};

enum class AttentionKernel { kWgmma, kMma };

// Packed rows of one tile.
inline constexpr int kWgmmaTileRows = 128;
inline constexpr int kMmaTileRows = 64;

struct AttentionCall {
  AttentionKernel kernel = AttentionKernel::kWgmma;
  const __nv_bfloat16* queries = nullptr;  // [tokens, pitch]: query head h at columns h * head_dim.
  int64_t query_pitch = 0;
  int tokens = 0;                // Rows of `queries`.
  __nv_bfloat16* out = nullptr;  // [tokens, query_heads * head_dim]
  int query_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int window_keys = 0;        // Keys a query sees, itself included; 0 = all earlier ones.
  bool window_group = false;  // Pages are named by the window ring, not by the full list.
  KvLayerView kv;
  // Device arrays of the chunk plan.
  const AttentionTile* tiles = nullptr;
  int tile_count = 0;
  const SegmentPages* segments = nullptr;
  const uint32_t* pages = nullptr;
  // Host memory, for kWgmma: from MakeHeadMap and MakeKvMap.
  const CUtensorMap* query_map = nullptr;
  const CUtensorMap* kv_map = nullptr;
};

// Tokens of a full tile: as many as fit with query_heads / kv_heads rows each; at least 1.
int AttentionTileTokens(AttentionKernel kernel, int query_heads, int kv_heads);

// The fast kernel where it applies, else the other.
AttentionKernel ChooseAttentionKernel(int head_dim, int query_heads, int kv_heads);

// A whole page group as a matrix [rows, head_dim] whose boxes are one page's rows of one tile.
absl::StatusOr<CUtensorMap> MakeKvMap(const KvLayerView& kv, int head_dim);

absl::Status LaunchAttention(const AttentionCall& call, cudaStream_t stream);

namespace internal {
absl::Status LaunchWgmmaAttention(const AttentionCall& call, cudaStream_t stream);
absl::Status LaunchMmaAttention(const AttentionCall& call, cudaStream_t stream);
}  // namespace internal

}  // namespace baton::prefill
