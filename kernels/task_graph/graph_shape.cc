#include "kernels/task_graph/graph_shape.h"

namespace baton {

GraphShape GraphShape::Of(const ModelConfig& config) {
  GraphShape shape{
      .hidden = config.hidden,
      .qkv_rows = int64_t{config.query_heads + 2 * config.kv_heads} * config.head_dim,
      .merged_width = int64_t{config.query_heads} * config.head_dim,
      .vocab = config.vocab,
      .expert_count = config.expert_count,
  };
  shape.hidden_units = UnitsFor(shape.hidden);
  shape.qkv_units = UnitsFor(shape.qkv_rows);
  shape.vocab_units = UnitsFor(shape.vocab);
  for (const LayerConfig& layer : config.layers) {
    if (layer.dense) {
      shape.layers.push_back(
          {.sliding = layer.sliding, .always_rows = static_cast<uint32_t>(layer.ffn_width)});
    } else {
      shape.layers.push_back({.sparse = true,
                              .sliding = layer.sliding,
                              .router_units = UnitsFor(config.expert_count),
                              .expert_rows = static_cast<uint32_t>(layer.ffn_width),
                              .always_rows = static_cast<uint32_t>(config.shared_width),
                              .active_experts = config.experts_per_token});
    }
  }
  return shape;
}

}  // namespace baton
