#include "kernels/models/layer_pattern.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/models/quoted.h"

namespace baton {
namespace {

// Marks the layers that `key` calls `marked_name`; every other must be called `other_name`.
struct NamedKinds {
  std::string key;
  std::string marked_name;
  std::string other_name;
};

std::vector<bool> ReadNamedKinds(JsonObject& config, const NamedKinds& kinds, int layer_count) {
  std::vector<bool> marked(layer_count);
  const std::vector<std::string> names = config.Strings(kinds.key);
  if (names.size() != marked.size()) {
    config.Refuse(kinds.key,
                  absl::StrCat("one of ", layer_count, " (num_hidden_layers) for each layer"));
    return marked;
  }
  for (int i = 0; i < layer_count; ++i) {
    marked[i] = names[i] == kinds.marked_name;
    if (!marked[i] && names[i] != kinds.other_name) {
      config.RefuseWith(absl::StrCat("key ", Quoted(kinds.key), ", layer ", i, ": want ",
                                     kinds.marked_name, " or ", kinds.other_name, ", found ",
                                     Quoted(names[i])));
    }
  }
  return marked;
}

}  // namespace

std::vector<LayerConfig> ReadLayerPattern(JsonObject& config, int layer_count) {
  // Beside layer_types nothing is divided by a pattern; the prefix's still says by being 1 that
  // full dense layers have RoPE.
  const bool named = config.Has("layer_types");
  const JsonObject::IntRange pattern_range = {named ? INT32_MIN : 1, 1 << 20};
  const int prefix_count = config.IntOr("first_k_dense_replace", 0, {0, layer_count});
  const int prefix_pattern = config.IntOr("prefix_dense_sliding_window_pattern", 1, pattern_range);
  const int pattern = config.IntOr("sliding_window_pattern", 4, pattern_range);

  std::vector<bool> sliding(layer_count);
  if (named) {
    sliding =
        ReadNamedKinds(config, {"layer_types", "sliding_attention", "full_attention"}, layer_count);
  } else {
    for (int i = 0; i < layer_count; ++i) {
      sliding[i] =
          i < prefix_count ? (i + 1) % prefix_pattern != 0 : (i - prefix_count + 1) % pattern != 0;
    }
  }

  std::vector<bool> dense(layer_count);
  if (config.Has("mlp_layer_types")) {
    dense = ReadNamedKinds(config, {"mlp_layer_types", "dense", "sparse"}, layer_count);
    const int found =
        static_cast<int>(std::find(dense.begin(), dense.end(), false) - dense.begin());
    if (config.Has("first_k_dense_replace") && found != prefix_count) {
      config.Refuse("first_k_dense_replace",
                    absl::StrCat(found, ", the leading dense layers of mlp_layer_types"));
    }
  } else {
    std::fill(dense.begin(), dense.begin() + prefix_count, true);
  }

  std::vector<LayerConfig> layers(layer_count);
  for (int i = 0; i < layer_count; ++i) {
    layers[i].sliding = sliding[i];
    layers[i].dense = dense[i];
    layers[i].rope = sliding[i] || (dense[i] && prefix_pattern == 1);
  }
  return layers;
}

}  // namespace baton
