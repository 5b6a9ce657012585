// PrefillWeights: a model's weights on the device as prefill reads them, bf16 row-major [out, in]
// in one allocation. Matrices that are multiplied by the same input lie together: q, k, v and the
// router's rows are one matrix; gate and up rows alternate in groups of 8 (TileGemm's kSwiGlu).
// Owned by the engine; immutable once made.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/models/model_config.h"
#include "kernels/models/weight_set.h"

namespace baton::prefill {

struct PrefillLayerWeights {
  const __nv_bfloat16* norm = nullptr;             // [hidden]
  const __nv_bfloat16* qkv_router = nullptr;       // [(q + 2 kv) * head_dim + experts, hidden]
  const __nv_bfloat16* o = nullptr;                // [hidden, q * head_dim]
  const __nv_bfloat16* gate_up = nullptr;          // [2 width, hidden]: dense or shared, or null
  const __nv_bfloat16* down = nullptr;             // [hidden, width]
  const __nv_bfloat16* experts_gate_up = nullptr;  // [experts, 2 expert_width, hidden], or null
  const __nv_bfloat16* experts_down = nullptr;     // [experts, hidden, expert_width]
  int qkv_router_rows = 0;
  int width = 0;  // Of the dense or shared network; 0 if there is none.
};

class PrefillWeights {
 public:
  // Copies a checkpoint's weights through pinned staging; float16 and float32 are rounded to bf16.
  // `weights` is not used afterwards. InvalidArgument for widths that are no multiple of 8.
  static absl::StatusOr<std::unique_ptr<PrefillWeights>> Upload(const ModelConfig& config,
                                                                const WeightSet& weights);

  // Random weights of the geometry, for measuring without a checkpoint: uniform with variance
  // 1 / in, norms 1.
  static absl::StatusOr<std::unique_ptr<PrefillWeights>> Synthetic(const ModelConfig& config,
                                                                   uint64_t seed);

  const std::vector<PrefillLayerWeights>& layers() const { return layers_; }
  const __nv_bfloat16* embedding() const { return embedding_; }    // [vocab, hidden]
  const __nv_bfloat16* final_norm() const { return final_norm_; }  // [hidden]
  const __nv_bfloat16* head() const { return head_; }              // [vocab, hidden]
  uint64_t size_bytes() const { return memory_.size_bytes(); }

 private:
  PrefillWeights() = default;
  static absl::StatusOr<std::unique_ptr<PrefillWeights>> Allocate(const ModelConfig& config);

  DeviceMemory memory_;
  std::vector<PrefillLayerWeights> layers_;
  const __nv_bfloat16* embedding_ = nullptr;
  const __nv_bfloat16* final_norm_ = nullptr;
  const __nv_bfloat16* head_ = nullptr;
};

// The configuration of North Mini Code (model_spec: 49 layers, hidden 2048, 128 experts of 768).
ModelConfig NorthMiniCodeConfig();

}  // namespace baton::prefill
