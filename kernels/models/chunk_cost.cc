#include "kernels/models/chunk_cost.h"

#include <algorithm>

#include "kernels/models/distinct_experts.h"

namespace baton {
namespace {

// Sum over queries [begin, begin + tokens) of min(position + 1, window); window 0 = no limit.
double VisibleKeys(const PromptStretch& stretch, int64_t window) {
  const double begin = static_cast<double>(stretch.begin);
  const double end = begin + static_cast<double>(stretch.tokens);
  const auto triangle = [](double n) { return n * (n + 1) / 2; };
  if (window <= 0) return triangle(end) - triangle(begin);
  const double limit = static_cast<double>(window);
  const double growing_begin = std::min(begin, limit);
  const double growing_end = std::min(end, limit);
  return triangle(growing_end) - triangle(growing_begin) +
         ((end - growing_end) - (begin - growing_begin)) * limit;
}

}  // namespace

DeviceRates DeviceRates::WithMultiprocessors(int count) const {
  DeviceRates rates = *this;
  const double share = double(count) / multiprocessors;
  rates.matrix_operations_per_second *= share;
  rates.attention_operations_per_second *= share;
  rates.multiprocessors = count;
  return rates;
}

ChunkWork CountChunkWork(const ModelConfig& config, absl::Span<const PromptStretch> stretches) {
  double tokens = 0;
  for (const PromptStretch& stretch : stretches) tokens += static_cast<double>(stretch.tokens);
  const double hidden = config.hidden;
  const double query_width = double(config.query_heads) * config.head_dim;
  const double kv_width = double(config.kv_heads) * config.head_dim;
  const double distinct_experts =
      ExpectedDistinctExperts(tokens, config.experts_per_token, config.expert_count);
  ChunkWork work;
  for (const LayerConfig& layer : config.layers) {
    double weights = hidden * (2 * query_width + 2 * kv_width);  // Used by every token.
    double expert_weights = 0;                                   // Of one expert.
    double row_bytes = 2 * (6 * hidden + 3 * query_width + 4 * kv_width);
    if (layer.dense) {
      weights += 3.0 * layer.ffn_width * hidden;
    } else {
      weights += hidden * config.expert_count;
      if (config.shared != SharedExperts::kNone) weights += 3.0 * config.shared_width * hidden;
      expert_weights = 3.0 * config.expert_width * hidden;
      row_bytes += 2.0 * config.experts_per_token * (4 * hidden + 2 * config.expert_width);
    }
    work.matrix_operations += 2 * tokens * (weights + config.experts_per_token * expert_weights);
    work.weight_bytes += 2 * (weights + distinct_experts * expert_weights);
    work.activation_bytes += tokens * row_bytes;
    for (const PromptStretch& stretch : stretches) {
      const double keys = VisibleKeys(stretch, layer.sliding ? config.window_keys : 0);
      work.attention_operations += 4 * query_width * keys;
    }
  }
  return work;
}

double EstimateChunkSeconds(const ModelConfig& config, absl::Span<const PromptStretch> stretches,
                            const DeviceRates& rates) {
  const ChunkWork work = CountChunkWork(config, stretches);
  // The products hide the reading of their weights, or are bound by it.
  const double products = std::max(work.matrix_operations / rates.matrix_operations_per_second,
                                   work.weight_bytes / rates.bytes_per_second);
  return products + work.attention_operations / rates.attention_operations_per_second +
         work.activation_bytes / rates.bytes_per_second +
         rates.fixed_seconds_per_layer * config.layer_count;
}

}  // namespace baton
