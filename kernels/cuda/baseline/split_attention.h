// Attention of a decode step as two ordinary kernels: partial softmax over splits of the cached
// keys, then a merge. For the one-kernel-per-operation baseline.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

namespace baton::cuda {

inline constexpr int kBaselineHeadDim = 128;
inline constexpr int kBaselineMaxGroup = 8;  // Query heads a KV head.

struct SplitAttentionCall {
  const __nv_bfloat16* queries = nullptr;  // [rows, query_pitch]: query head h at h * 128.
  int64_t query_pitch = 0;
  int rows = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int window_keys = 0;                 // Keys a row sees, its own included; 0 = all of them.
  const int32_t* positions = nullptr;  // [rows]; the keys of [0, position] are in pages.
  // Where the layer's K/V tiles lie: tile (page, is_v, head) at base + page * page_bytes +
  // (is_v * kv_heads + head) * 16 KiB, swizzled (kernels/kv/kv_layout.h).
  const char* base = nullptr;
  uint64_t page_bytes = 0;
  const uint32_t* pages = nullptr;  // [rows][page_stride]
  int page_stride = 0;
  const int32_t* ring = nullptr;  // [rows] pages of each row's ring; null: no ring.
  int pages_per_split = 0;
  int max_splits = 0;            // At least the splits of the longest row.
  float* partial_o = nullptr;    // [rows][kv_heads][max_splits][8][128]
  float* partial_ml = nullptr;   // [rows][kv_heads][max_splits][8][2]: maximum (base 2) and sum.
  __nv_bfloat16* out = nullptr;  // [rows, query_heads * 128]
};
absl::Status LaunchSplitAttention(const SplitAttentionCall& call, cudaStream_t stream);

}  // namespace baton::cuda
