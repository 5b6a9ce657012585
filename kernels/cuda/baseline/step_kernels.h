// Small kernels of a decode step for the one-kernel-per-operation baseline: RoPE with append to the
// pages, the gated product, and the move to the next token.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "common/generation.h"
#include "kernels/cuda/prefill/sampling.h"

namespace baton::cuda {

// Rotates queries in place (interleaved pairs) and writes the rotated keys, and the values, of each
// row's own position to its page. Pages as in SplitAttentionCall.
struct RotateAppendCall {
  __nv_bfloat16* qkv = nullptr;  // [rows, pitch]: query heads, key heads, value heads
  int64_t pitch = 0;
  int rows = 0;
  int query_heads = 0;
  int kv_heads = 0;
  bool rope = false;
  const float2* rotary = nullptr;  // [rows, 64]: cosine and sine
  const int32_t* positions = nullptr;
  char* base = nullptr;
  uint64_t page_bytes = 0;
  const uint32_t* pages = nullptr;
  int page_stride = 0;
  const int32_t* ring = nullptr;
};
absl::Status LaunchRotateAppend(const RotateAppendCall& call, cudaStream_t stream);

// out = bf16(bf16(silu(gate)) * up) of [rows, 2 width] whose columns alternate in groups of 8.
struct GateCall {
  const __nv_bfloat16* in = nullptr;
  __nv_bfloat16* out = nullptr;  // [rows, width]
  int rows = 0;
  int width = 0;
};
absl::Status LaunchGate(const GateCall& call, cudaStream_t stream);

// The sampled tokens become the next step's input, one position on; `history` keeps them.
struct AdvanceCall {
  int rows = 0;
  const SampledToken* sampled = nullptr;      // [rows]
  int32_t* token_ids = nullptr;               // [rows]
  int32_t* positions = nullptr;               // [rows]
  prefill::SampleRow* sample_rows = nullptr;  // [rows]
  uint32_t* step = nullptr;                   // From 1.
  SampledToken* history = nullptr;            // [max_steps][rows]
  uint32_t max_steps = 0;
};
absl::Status LaunchAdvance(const AdvanceCall& call, cudaStream_t stream);

}  // namespace baton::cuda
