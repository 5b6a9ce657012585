// ModelConfig: what a checkpoint's config.json says about a cohere2_moe model, with every derived
// value worked out (the layer pattern, RoPE per layer, defaults). Plain values; no pointer to JSON
// survives. Source of the rules: Hugging Face transformers configuration_cohere2_moe and
// modeling_cohere2_moe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

enum class NormKind {
  kRmsNorm,    // rms_norm_eps is set.
  kLayerNorm,  // Mean-centred, weight only; rms_norm_eps is absent or null.
};

// How the logits of the experts_per_token best experts become their weights.
enum class RouterKind {
  kSigmoid,  // Sigmoid of each; divided by their sum if norm_topk.
  kSoftmax,  // Softmax over the selected logits only, in float32; norm_topk has no effect.
};

// How the shared expert's output joins the routed sum.
enum class SharedExperts {
  kNone,
  kSum,      // routed + shared
  kAverage,  // (routed + shared) / 2
};

struct LayerConfig {
  bool sliding = false;  // Sees window_keys keys; otherwise all earlier ones.
  bool rope = false;     // Rotates queries and keys.
  bool dense = false;    // One gated feed-forward network; otherwise routed experts.
  int ffn_width = 0;     // Of the dense network, or of one expert.

  bool operator==(const LayerConfig&) const = default;
};

struct ModelConfig {
  std::string model_type;

  int hidden = 0;
  int layer_count = 0;
  int query_heads = 0;
  int kv_heads = 0;  // Divides query_heads.
  int head_dim = 0;  // Even; query_heads * head_dim need not equal hidden.
  int vocab = 0;
  std::vector<LayerConfig> layers;  // layer_count of them.

  int expert_count =
      0;  // Routed; 0 if every layer is dense. Same for experts_per_token and widths.
  int experts_per_token = 0;
  int expert_width = 0;
  RouterKind router = RouterKind::kSoftmax;
  bool norm_topk = false;
  SharedExperts shared = SharedExperts::kNone;
  int shared_width = 0;  // intermediate_size * num_shared_experts; 0 if none.

  NormKind norm = NormKind::kLayerNorm;
  float norm_epsilon = 0;
  double rope_theta = 0;  // Interleaved pairs (2i, 2i + 1) over the whole head, no scaling.
  float logit_scale = 1;
  bool tied_head = true;  // A Checkpoint's is what its files hold, whatever config.json says.
  int max_positions = 0;

  // Keys a sliding layer sees, the current one included: a key at distance d is visible when
  // d < window_keys. Hugging Face takes it from sliding_window; other servers differ by one, hence
  // the override. 0 if no layer slides.
  int window_keys = 0;

  // Ids of the vocabulary alone. The eos ids are generation_config's first, then config's; each
  // once; may be empty.
  std::vector<int> eos_ids;
  int bos_id = -1;  // -1: none.
  int pad_id = -1;  // -1: none.

  bool operator==(const ModelConfig&) const = default;
};

// Parses the text of config.json and generation_config.json (empty: there is none). Refuses with
// InvalidArgument, naming the key, what was wanted and what was found, whatever is contradictory or
// not supported (biases, q/k norm, RoPE scaling, quantised weights).
absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& config_json,
                                             const std::string& generation_config_json);

// The same from model_dir/config.json and, where it exists, model_dir/generation_config.json.
// NotFound without config.json; messages name the file.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model_dir);

}  // namespace baton
