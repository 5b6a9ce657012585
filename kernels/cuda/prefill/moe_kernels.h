// Routing of a prefill chunk's tokens to experts: top-k with weights, and the permutation that puts
// the rows of one expert together. Everything stays on the device; nothing depends on timing.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/prefill/tile_gemm.h"

namespace baton::prefill {

inline constexpr int kMaxExperts = 1024;
inline constexpr int kMaxExpertsPerToken = 32;

// Selects the experts_per_token largest of a row's bf16 logits, ties to the lowest id, and lists
// them by ascending id. Weights: sigmoid of the logit rounded to bf16, divided by their sum if
// norm_topk (rounded again); or softmax over the selected ones, rounded to bf16.
struct RouteCall {
  const __nv_bfloat16* logits = nullptr;  // [rows, pitch], the first expert_count columns.
  int64_t pitch = 0;
  int rows = 0;
  int expert_count = 0;
  int experts_per_token = 0;
  bool softmax = false;
  bool norm_topk = false;
  int32_t* slot_experts = nullptr;  // [rows, experts_per_token]
  float* slot_weights = nullptr;    // [rows, experts_per_token]
  int32_t* expert_rows = nullptr;   // [expert_count]: zero before; receives the rows per expert.
};
absl::Status LaunchRoute(const RouteCall& call, cudaStream_t stream);

// Places slots by expert, in order of their index within one: permuted row r is slot
// permuted_slots[r], and slot s is row slot_rows[s]. Lists the row tiles of the grouped product.
struct PermuteCall {
  const int32_t* slot_experts = nullptr;
  const int32_t* expert_rows = nullptr;
  int slots = 0;  // rows * experts_per_token
  int expert_count = 0;
  int32_t* permuted_slots = nullptr;  // [slots]
  int32_t* slot_rows = nullptr;       // [slots]
  GemmRowTile* row_tiles = nullptr;   // [MaxRowTiles(slots, expert_count)]
  int* row_tile_count = nullptr;
};
absl::Status LaunchPermute(const PermuteCall& call, cudaStream_t stream);

// Upper bound of the number of row tiles whatever the routing.
inline int MaxRowTiles(int64_t slots, int expert_count) {
  return static_cast<int>(slots / kGemmTileRows) + expert_count;
}

}  // namespace baton::prefill
