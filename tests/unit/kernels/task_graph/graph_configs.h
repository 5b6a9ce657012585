// Model shapes for the tests of task graphs: small ones that have every kind of layer, and North
// Mini Code's.
#pragma once

#include <string>
#include <vector>

#include "kernels/models/model_config.h"

namespace baton {

struct NamedConfig {
  std::string name;
  ModelConfig config;
};

inline ModelConfig GraphConfig(int layer_count, int dense_layers, SharedExperts shared) {
  ModelConfig config{.hidden = 96,
                     .layer_count = layer_count,
                     .query_heads = 6,
                     .kv_heads = 2,
                     .head_dim = 32,
                     .vocab = 515,
                     .expert_count = 12,
                     .experts_per_token = 4,
                     .expert_width = 48,
                     .shared = shared,
                     .shared_width = shared == SharedExperts::kNone ? 0 : 40};
  for (int layer = 0; layer < layer_count; ++layer) {
    const bool dense = layer < dense_layers;
    config.layers.push_back({.sliding = layer % 4 != 0,
                             .rope = layer % 4 != 0,
                             .dense = dense,
                             .ffn_width = dense ? 160 : 48});
  }
  return config;
}

inline std::vector<NamedConfig> SmallConfigs() {
  return {{"one dense layer first", GraphConfig(4, 1, SharedExperts::kNone)},
          {"shared expert", GraphConfig(5, 2, SharedExperts::kAverage)},
          {"all sparse", GraphConfig(4, 0, SharedExperts::kNone)},
          {"all dense", GraphConfig(4, 4, SharedExperts::kNone)}};
}

}  // namespace baton
