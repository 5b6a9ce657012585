// Expert choice and the experts' products of a decode step as ordinary kernels, for the
// one-kernel-per-operation baseline. A slot is one (row, chosen expert), slot = row *
// experts_per_token + i with the row's experts by ascending id.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

namespace baton::cuda {

inline constexpr int kBaselineMaxExperts = 256;
inline constexpr int kBaselineMaxSlots = 512;  // 32 rows of 16 experts.

// What one layer's routing decided; device memory.
struct ExpertLists {
  int32_t* active_count = nullptr;         // [1]
  int32_t* active_expert = nullptr;        // [experts] by ascending id
  int32_t* first_slot = nullptr;           // [experts + 1] per active expert: its range of `slots`
  int32_t* slots = nullptr;                // [rows * experts_per_token] by expert, then by row
  float* slot_weights = nullptr;           // [rows * experts_per_token] by slot
  unsigned long long* distinct = nullptr;  // Grows by active_count.
};

struct ChooseExpertsCall {
  const __nv_bfloat16* logits = nullptr;  // [rows, pitch], the first expert_count columns.
  int64_t pitch = 0;
  int rows = 0;
  int expert_count = 0;
  int experts_per_token = 0;
  bool softmax = false;
  bool norm_topk = false;
  int forced_experts = 0;  // > 0: draws uniformly from this many, by the megakernel's hash.
  int layer = 0;
  const uint32_t* step = nullptr;  // Of that hash.
  ExpertLists lists;
};
// Top-k by bf16 logit, ties to the lowest id; weights as Hugging Face transformers
// modeling_cohere2_moe rounds them.
absl::Status LaunchChooseExperts(const ChooseExpertsCall& call, cudaStream_t stream);

struct ExpertProductCall {
  const __nv_bfloat16* in = nullptr;       // GateUp: [rows, in_width]; Down: [slots, in_width].
  const __nv_bfloat16* weights = nullptr;  // [experts, rows of an expert, in_width]
  __nv_bfloat16* out = nullptr;            // [slots, out_width]
  int in_width = 0;                        // A multiple of 8.
  int out_width = 0;                       // A multiple of 8.
  int experts_per_token = 0;
  int most_active = 0;  // Upper bound of active experts.
  ExpertLists lists;
};
// out = bf16(silu(bf16(gate)) * bf16(up)); gate and up rows alternate in groups of 8.
absl::Status LaunchExpertGateUp(const ExpertProductCall& call, cudaStream_t stream);
// out = bf16(down . in)
absl::Status LaunchExpertDown(const ExpertProductCall& call, cudaStream_t stream);

}  // namespace baton::cuda
