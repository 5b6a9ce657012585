// A prefill engine with an arena full of poison, for the cases that run a whole model.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/prefill/prefill_engine.h"
#include "tests/gpu/prefill/gpu_case.h"
#include "tests/gpu/prefill/paged_arena.h"

namespace baton::prefill {

inline std::vector<bool> SlidingLayers(const ModelConfig& config) {
  std::vector<bool> sliding;
  for (const LayerConfig& layer : config.layers) sliding.push_back(layer.sliding);
  return sliding;
}

// An engine, an arena full of poison, and pages for a few prompts.
struct Rig {
  ModelConfig config;
  std::unique_ptr<PrefillEngine> engine;
  KvLayout layout;
  std::unique_ptr<DeviceArray<std::byte>> arena;
  std::unique_ptr<PageSource> full, window;

  KvPageTable Pages(int tokens, int chunk) {
    return {full->Take(FullPagesFor(tokens)),
            window->Take(WindowPagesFor(tokens, config.window_keys, chunk))};
  }
  KvTarget target() const { return {arena->get(), &layout}; }
};

inline Rig MakeRig(const ModelConfig& config, std::shared_ptr<const PrefillWeights> weights,
                   const PrefillEngineOptions& options, uint32_t pages) {
  Rig rig;
  rig.config = config;
  auto engine = PrefillEngine::Create(config, std::move(weights), options);
  MUST(engine.status());
  rig.engine = std::move(*engine);
  rig.layout = MakeTestLayout(
      {SlidingLayers(config), config.kv_heads, config.head_dim, pages, pages, config.window_keys});
  rig.arena = std::make_unique<DeviceArray<std::byte>>(rig.layout.total_bytes());
  rig.full = std::make_unique<PageSource>(pages, 1);
  rig.window = std::make_unique<PageSource>(pages, 2);
  return rig;
}

// Runs one prompt in chunks; returns the last logits.
inline std::vector<float> RunPrompt(Rig& rig, const std::vector<TokenId>& prompt,
                                    const KvPageTable& pages, int chunk) {
  std::vector<float> logits;
  for (int begin = 0; begin < int(prompt.size()); begin += chunk) {
    const int count = std::min<int>(chunk, int(prompt.size()) - begin);
    PrefillSegment segment;
    segment.tokens = absl::MakeConstSpan(prompt).subspan(begin, count);
    segment.begin = begin;
    segment.pages = &pages;
    segment.sample = begin + count == int(prompt.size());
    segment.logits = &logits;
    MUST(rig.engine->RunSegments({&segment, 1}, rig.target()).status());
  }
  return logits;
}

// The sequence's K/V of all layers as one string of bytes.
inline std::vector<std::byte> Cached(const Rig& rig, const KvPageTable& pages, int first,
                                     int tokens) {
  const std::vector<std::byte> arena = rig.arena->Download();
  std::vector<std::byte> out;
  for (int layer = 0; layer < rig.config.layer_count; ++layer) {
    const int begin = rig.config.layers[layer].sliding ? first : 0;
    for (int position = begin; position < tokens; ++position) {
      for (int tile = 0; tile < 2 * rig.config.kv_heads; ++tile) {
        for (int unit = 0; unit < rig.config.head_dim / 8; ++unit) {
          const uint64_t at = UnitOffset(rig.layout, pages, {layer, tile, position, unit});
          out.insert(out.end(), arena.begin() + at, arena.begin() + at + 16);
        }
      }
    }
  }
  return out;
}

inline double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

inline ModelConfig SmallConfig(int head_dim, bool softmax) {
  ModelConfig config = NorthMiniCodeConfig();
  config.hidden = 256;
  config.layer_count = 5;
  config.query_heads = 8;
  config.kv_heads = 2;
  config.head_dim = head_dim;
  config.vocab = 1000;
  config.layers.resize(5);
  for (LayerConfig& layer : config.layers) layer.ffn_width = layer.dense ? 512 : 64;
  config.expert_count = 16;
  config.experts_per_token = 4;
  config.expert_width = 64;
  config.max_positions = 8192;
  config.window_keys = 128;
  if (softmax) {
    config.router = RouterKind::kSoftmax;
    config.shared = SharedExperts::kAverage;
    config.shared_width = 96;
    config.norm = NormKind::kLayerNorm;
    config.logit_scale = 0.25f;
  }
  return config;
}

inline std::vector<TokenId> RandomPrompt(int tokens, int vocab, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<TokenId> prompt(tokens);
  for (TokenId& token : prompt) token = static_cast<TokenId>(engine() % vocab);
  return prompt;
}

}  // namespace baton::prefill
