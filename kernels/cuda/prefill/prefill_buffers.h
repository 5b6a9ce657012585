// PrefillBuffers: the activations of one chunk and the tensor maps over them and the weights, made
// once for the largest chunk. Owned by the engine.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/cuda/prefill/moe_kernels.h"
#include "kernels/cuda/prefill/prefill_weights.h"
#include "kernels/cuda/prefill/sampling.h"
#include "kernels/models/model_config.h"

namespace baton::prefill {

struct BufferLimits {
  int max_tokens = 0;
  int max_segments = 0;
};

// Over one layer's weights and its feed-forward activations.
struct LayerMaps {
  CUtensorMap qkv_router;
  CUtensorMap o;
  CUtensorMap gate_up;  // Where the layer has a dense or shared network: these three.
  CUtensorMap hidden;   // Its activations [tokens, width].
  CUtensorMap down;
  CUtensorMap experts_gate_up;
  CUtensorMap experts_down;
};

struct PrefillBuffers {
  DeviceMemory memory;
  __nv_bfloat16* x = nullptr;              // [tokens, hidden]
  __nv_bfloat16* normed = nullptr;         // [tokens, hidden]
  __nv_bfloat16* qkv = nullptr;            // [tokens, the layer's qkv_router_rows]
  __nv_bfloat16* attention = nullptr;      // [tokens, query heads * head_dim]
  __nv_bfloat16* projected = nullptr;      // [tokens, hidden]: attention after its output matrix
  __nv_bfloat16* expert_rows = nullptr;    // [slots, hidden]: the experts' inputs, then outputs
  __nv_bfloat16* expert_hidden = nullptr;  // [slots, expert_width]
  __nv_bfloat16* dense_hidden = nullptr;   // [tokens, width]
  __nv_bfloat16* dense_out = nullptr;      // [tokens, hidden]: the dense or shared network's output
  float2* rotary = nullptr;                // [tokens, head_dim / 2]
  float* inverse_frequencies = nullptr;    // [head_dim / 2]
  int32_t* slot_experts = nullptr;         // [slots]
  float* slot_weights = nullptr;           // [slots]
  int32_t* slot_rows = nullptr;            // [slots]
  int32_t* permuted_slots = nullptr;       // [slots]
  int32_t* expert_counts = nullptr;        // [layers, experts]
  GemmRowTile* row_tiles = nullptr;
  int* row_tile_count = nullptr;
  __nv_bfloat16* head_rows = nullptr;  // [segments, hidden]
  float* logits = nullptr;             // [segments, vocab]
  SamplePartial* partials = nullptr;
  SampledToken* sampled = nullptr;  // [segments]
  uint64_t expert_counts_bytes = 0;

  CUtensorMap normed_map;
  CUtensorMap attention_map;
  CUtensorMap expert_rows_map;
  CUtensorMap expert_hidden_map;
  CUtensorMap head_rows_map;
  CUtensorMap head_map;
  std::vector<LayerMaps> layers;
};

absl::StatusOr<PrefillBuffers> MakePrefillBuffers(const ModelConfig& config,
                                                  const PrefillWeights& weights,
                                                  const BufferLimits& limits);

}  // namespace baton::prefill
