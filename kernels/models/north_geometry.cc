#include "kernels/models/north_geometry.h"

namespace baton {

ModelConfig NorthMiniCodeGeometry(int layers) {
  ModelConfig config;
  config.model_type = "cohere2_moe";
  config.hidden = 2048;
  config.layer_count = layers;
  config.query_heads = 32;
  config.kv_heads = 4;
  config.head_dim = 128;
  config.vocab = 262144;
  config.expert_count = 128;
  config.experts_per_token = 8;
  config.expert_width = 768;
  config.router = RouterKind::kSigmoid;
  config.norm_topk = false;
  config.shared = SharedExperts::kNone;
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon = 1e-6f;
  config.rope_theta = 50000;
  config.logit_scale = 1.0f;
  config.tied_head = true;
  config.max_positions = 262144;
  config.window_keys = 4096;
  for (int l = 0; l < layers; ++l) {
    const bool full = l % 4 == 0;
    config.layers.push_back({.sliding = !full,
                             .rope = !full || l == 0,
                             .dense = l == 0,
                             .ffn_width = l == 0 ? 3072 : 768});
  }
  return config;
}

}  // namespace baton
