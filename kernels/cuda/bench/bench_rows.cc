#include "kernels/cuda/bench/bench_rows.h"

#include <algorithm>

#include "kernels/kv/model_kv_layout.h"

namespace baton::cuda {

std::vector<int> ContextsOf(const DecodePoint& point) {
  return point.contexts.empty() ? std::vector<int>(point.batch, point.context) : point.contexts;
}

int TotalSteps(const DecodePoint& point) { return point.warm_up_steps + point.steps + 4; }

KvLayout BenchLayout(const ModelConfig& config, const DecodePoint& point) {
  uint32_t full = 0, window = 0;
  for (int context : ContextsOf(point)) {
    full += FullPagesFor(context + TotalSteps(point));
    window += WindowPagesFor(context + TotalSteps(point), config.window_keys, 1);
  }
  return MakeModelKvLayout(config, {.element_bytes = 2, .swizzled = true}, full, window);
}

std::vector<RowJoin> BenchRows(const ModelConfig& config, const DecodePoint& point) {
  std::vector<RowJoin> rows;
  const KvLayout layout = BenchLayout(config, point);
  PagesInOrder pages(layout);
  for (int context : ContextsOf(point)) {
    const int tokens = context + TotalSteps(point);
    const size_t i = rows.size();
    rows.push_back(
        {.slot = static_cast<int>(i),
         .row_id = i + 1,
         .token = static_cast<TokenId>((100 + 37 * i) % config.vocab),
         .position = context,
         .max_new_tokens = TotalSteps(point),
         .pages = pages.Take(FullPagesFor(tokens), WindowPagesFor(tokens, config.window_keys, 1))});
  }
  return rows;
}

double KvBytesRead(const ModelConfig& config, const std::vector<int>& contexts) {
  double bytes = 0;
  for (int context : contexts) {
    for (const LayerConfig& layer : config.layers) {
      const int keys = layer.sliding ? std::min(context, config.window_keys) : context;
      bytes += 4.0 * config.kv_heads * config.head_dim * keys;
    }
  }
  return bytes;
}

double WeightBytesRead(const ModelConfig& config, double distinct_experts) {
  const double hidden = config.hidden;
  const double q = double(config.query_heads) * config.head_dim;
  const double kv = double(config.kv_heads) * config.head_dim;
  double bytes = 2.0 * config.vocab * hidden;
  for (const LayerConfig& layer : config.layers) {
    bytes += 2 * hidden * (2 * q + 2 * kv);
    if (layer.dense) {
      bytes += 6 * hidden * layer.ffn_width;
      continue;
    }
    bytes += 2 * hidden * config.expert_count + 6 * hidden * config.shared_width;
    bytes += distinct_experts * 6 * hidden * layer.ffn_width;
  }
  return bytes;
}

}  // namespace baton::cuda
