#include "kernels/models/layer_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

using ::testing::HasSubstr;

JsonObject ParsedLayers(const std::string& text) {
  auto object = JsonObject::Parse(text, "config.json", 10000);
  EXPECT_TRUE(object.ok()) << object.status();
  return *std::move(object);
}

// One letter a layer: S sliding, F full; small if it has no RoPE; ' marks a dense layer.
std::string Pattern(const std::string& json, int layer_count) {
  JsonObject config = ParsedLayers(json);
  std::string text;
  for (const LayerConfig& layer : ReadLayerPattern(config, layer_count)) {
    const char letter = layer.sliding ? 'S' : 'F';
    text += layer.rope ? letter : static_cast<char>(letter + ('a' - 'A'));
    if (layer.dense) text += '\'';
  }
  EXPECT_TRUE(config.status().ok()) << config.status();
  return text;
}

TEST(LayerPattern, DerivesNorthMiniCodes) {
  // 49 layers, one dense; every fourth is full, from the first on; RoPE in sliding layers and layer
  // 0.
  std::string want = "F'";
  for (int i = 1; i < 49; ++i) want += i % 4 == 0 ? 'f' : 'S';
  EXPECT_EQ(Pattern(R"({"first_k_dense_replace": 1, "prefix_dense_sliding_window_pattern": 1,
                        "sliding_window_pattern": 4})",
                    49),
            want);
}

TEST(LayerPattern, DefaultsAreFourthLayerFullAndNoPrefix) { EXPECT_EQ(Pattern("{}", 6), "SSSfSS"); }

TEST(LayerPattern, PrefixHasItsOwnPattern) {
  EXPECT_EQ(Pattern(R"({"first_k_dense_replace": 3, "prefix_dense_sliding_window_pattern": 2,
                        "sliding_window_pattern": 3})",
                    7),
            "S'f'S'SSfS");
  EXPECT_EQ(Pattern(R"({"first_k_dense_replace": 2, "sliding_window_pattern": 1})", 4), "F'F'ff");
}

TEST(LayerPattern, NamedKindsGoBeforeDerivedOnes) {
  EXPECT_EQ(Pattern(R"({"layer_types": ["full_attention", "sliding_attention", "full_attention"],
                        "mlp_layer_types": ["sparse", "dense", "dense"]})",
                    3),
            "fS'F'");
  EXPECT_EQ(Pattern(R"({"layer_types": ["full_attention", "sliding_attention", "full_attention"],
                        "first_k_dense_replace": 1, "prefix_dense_sliding_window_pattern": 2})",
                    3),
            "f'Sf");
  EXPECT_EQ(Pattern(R"({"mlp_layer_types": ["dense", "sparse"], "first_k_dense_replace": 1})", 2),
            "F'S");
}

TEST(LayerPattern, PatternsThatNothingIsDividedByMayBeZero) {
  EXPECT_EQ(Pattern(R"({"layer_types": ["full_attention", "sliding_attention"],
                        "sliding_window_pattern": 0})",
                    2),
            "fS");
  // Other than 1, a full dense layer has no RoPE.
  EXPECT_EQ(Pattern(R"({"layer_types": ["full_attention", "sliding_attention"],
                        "first_k_dense_replace": 1, "prefix_dense_sliding_window_pattern": 0})",
                    2),
            "f'S");
}

TEST(LayerPattern, RefusesContradictions) {
  const struct {
    const char* json;
    const char* error;
  } cases[] = {
      {R"({"layer_types": ["full_attention"]})", "key \"layer_types\": want one of 2"},
      {R"({"layer_types": []})", "key \"layer_types\": want one of 2"},
      {R"({"layer_types": "full_attention"})", "key \"layer_types\""},
      {R"({"layer_types": ["full_attention", "linear_attention"]})",
       "layer 1: want sliding_attention or full_attention, found \"linear_attention\""},
      {R"({"mlp_layer_types": ["dense", "moe"]})", "layer 1: want dense or sparse, found \"moe\""},
      {R"({"mlp_layer_types": ["dense", "sparse", "sparse"]})", "key \"mlp_layer_types\""},
      {R"({"mlp_layer_types": ["dense", "sparse"], "first_k_dense_replace": 2})",
       "want 1, the leading dense layers of mlp_layer_types, found 2"},
      {R"({"first_k_dense_replace": 3})", "want an integer in 0..2, found 3"},
      {R"({"sliding_window_pattern": 0})", "key \"sliding_window_pattern\""},
      {R"({"prefix_dense_sliding_window_pattern": 0})", "found 0"},
      {R"({"layer_types": ["full_attention", "full_attention"], "sliding_window_pattern": "4"})",
       "key \"sliding_window_pattern\""},
  };
  for (const auto& test_case : cases) {
    JsonObject config = ParsedLayers(test_case.json);
    ReadLayerPattern(config, 2);
    ASSERT_FALSE(config.status().ok()) << test_case.json;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(test_case.error))
        << test_case.json;
  }
}

}  // namespace
}  // namespace baton
