// The memory-bound kernels of a prefill chunk: one block per row of the residual stream, or one
// thread per 16-byte unit. Rounding points are those of Hugging Face transformers
// modeling_cohere2_moe in bf16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/prefill/attention.h"
#include "kernels/cuda/prefill/chunk_plan.h"

namespace baton::prefill {

struct NormCall {
  const __nv_bfloat16* weight = nullptr;  // [hidden]
  bool rms = true;                        // Else LayerNorm: mean-centred, weight only.
  float epsilon = 0;
};

// x[row] = embedding[token_ids[row]]; normed[row] = norm(x[row]). [rows, hidden], hidden a multiple
// of 8 and at most kMaxHidden.
inline constexpr int kMaxHidden = 16384;
struct EmbedCall {
  const int32_t* token_ids = nullptr;
  const __nv_bfloat16* embedding = nullptr;
  __nv_bfloat16* x = nullptr;
  __nv_bfloat16* normed = nullptr;
  int rows = 0;
  int hidden = 0;
  NormCall norm;
};
absl::Status LaunchEmbed(const EmbedCall& call, cudaStream_t stream);

// x = bf16(bf16(x + attention) + ffn); normed = norm(x). The feed-forward part is `dense` [rows,
// hidden], or the routed sum: over the row's slots, in slot order, weight * expert row in fp32,
// then rounded; with a shared expert's output, shared_scale * bf16(routed + shared).
struct CombineCall {
  __nv_bfloat16* x = nullptr;
  __nv_bfloat16* normed = nullptr;
  const __nv_bfloat16* attention = nullptr;
  const __nv_bfloat16* dense = nullptr;        // Null in a sparse layer.
  const __nv_bfloat16* expert_rows = nullptr;  // [rows * slots, hidden]
  const int32_t* slot_rows = nullptr;          // [rows, slots] -> row of expert_rows
  const float* slot_weights = nullptr;         // [rows, slots]
  int slots = 0;
  const __nv_bfloat16* shared = nullptr;  // [rows, hidden] or null.
  float shared_scale = 1.0f;
  int rows = 0;
  int hidden = 0;
  NormCall norm;
};
absl::Status LaunchCombine(const CombineCall& call, cudaStream_t stream);

// out[i] = in[rows[i] / divisor] for i < count. [*, hidden]
struct GatherCall {
  const __nv_bfloat16* in = nullptr;
  const int32_t* rows = nullptr;
  int divisor = 1;
  __nv_bfloat16* out = nullptr;
  int count = 0;
  int hidden = 0;
};
absl::Status LaunchGather(const GatherCall& call, cudaStream_t stream);

// rotary[row][i] = (cos, sin) of positions[row] * inverse_frequencies[i], each rounded to bf16.
struct RotaryCall {
  const int32_t* positions = nullptr;
  const float* inverse_frequencies = nullptr;  // [head_dim / 2]
  float2* rotary = nullptr;                    // [rows, head_dim / 2]
  int rows = 0;
  int head_dim = 0;
};
absl::Status LaunchRotary(const RotaryCall& call, cudaStream_t stream);

// Rotates queries in place and keys (interleaved pairs) where `rope`, and writes keys and values to
// the segments' pages. Token slots of each segment's last page after its end are zeroed, so that a
// kernel may multiply them by a zero weight.
struct ScatterCall {
  __nv_bfloat16* qkv = nullptr;  // [rows, pitch]: query heads, key heads, value heads, …
  int64_t pitch = 0;
  int rows = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  bool rope = false;
  const float2* rotary = nullptr;
  bool window_group = false;
  KvLayerView kv;
  const int32_t* positions = nullptr;
  const int32_t* token_segment = nullptr;
  const SegmentPages* segments = nullptr;
  int segment_count = 0;
  const uint32_t* pages = nullptr;
};
absl::Status LaunchScatter(const ScatterCall& call, cudaStream_t stream);

}  // namespace baton::prefill
