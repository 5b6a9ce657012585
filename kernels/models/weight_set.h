// WeightSet: every weight of a cohere2_moe model by role, as views into memory a Checkpoint owns.
// Shapes are checked against the ModelConfig before one exists. Matrices are row-major [out, in].
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/models/tensor_view.h"

namespace baton {

struct ExpertWeights {
  TensorView gate;  // [expert_width, hidden]
  TensorView up;    // [expert_width, hidden]
  TensorView down;  // [hidden, expert_width]
};

struct LayerWeights {
  TensorView norm;  // [hidden]
  TensorView q;     // [query_heads * head_dim, hidden]
  TensorView k;     // [kv_heads * head_dim, hidden]
  TensorView v;     // [kv_heads * head_dim, hidden]
  TensorView o;     // [hidden, query_heads * head_dim]

  // The dense network, or in a sparse layer the shared expert; empty where there is none.
  TensorView gate;  // [ffn_width or shared_width, hidden]
  TensorView up;    // [ffn_width or shared_width, hidden]
  TensorView down;  // [hidden, ffn_width or shared_width]

  TensorView router;                   // [expert_count, hidden]; empty in a dense layer.
  std::vector<ExpertWeights> experts;  // expert_count; empty in a dense layer.
};

struct WeightSet {
  TensorView embedding;   // [vocab, hidden]
  TensorView final_norm;  // [hidden]
  TensorView head;        // [vocab, hidden]; the embedding's bytes when tied.
  std::vector<LayerWeights> layers;
  uint64_t total_bytes = 0;  // Of all of them; a tied head counts once.
  uint64_t fingerprint = 0;  // Set by Checkpoint::Open.

  // A digest of the config, roles, shapes, dtypes and a sample of the bytes: equal for the same
  // weights in either expert layout and any sharding. Not a proof against forgery.
  uint64_t Fingerprint() const { return fingerprint; }
};

}  // namespace baton
