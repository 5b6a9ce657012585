// The kind of each layer (sliding or full attention, RoPE, dense or sparse) from a config.json.
#pragma once

#include <vector>

#include "kernels/models/json_object.h"
#include "kernels/models/model_config.h"

namespace baton {

// Reads layer_types and mlp_layer_types, or what they derive from: first_k_dense_replace,
// sliding_window_pattern and prefix_dense_sliding_window_pattern. RoPE is on in sliding layers, and
// in dense ones if the prefix pattern is 1. Returns layer_count layers without their widths; an
// error is left in `config`. Source: Hugging Face transformers configuration_cohere2_moe,
// modeling_cohere2_moe.
std::vector<LayerConfig> ReadLayerPattern(JsonObject& config, int layer_count);

}  // namespace baton
