#include "kernels/cpu/step_buffers.h"

#include <algorithm>
#include <limits>

namespace baton {
namespace {

size_t FfnWidth(const GraphShape& shape) {
  size_t width = 0;
  for (const LayerShape& layer : shape.layers) {
    width = std::max(width, size_t{layer.expert_rows} * layer.active_experts + layer.always_rows);
  }
  return width;
}

}  // namespace

StepBuffers::StepBuffers(const ModelConfig& config, const GraphShape& shape, int max_rows,
                         int max_sampled, int worker_count)
    : hidden_(config.hidden),
      experts_(config.expert_count),
      ffn_width_(FfnWidth(shape)),
      query_width_(size_t(config.query_heads) * config.head_dim),
      kv_width_(size_t(config.kv_heads) * config.head_dim),
      query_heads_(config.query_heads),
      head_dim_(config.head_dim),
      vocab_units_(shape.vocab_units),
      max_sampled_(max_sampled) {
  const size_t rows = max_rows;
  for (int copy = 0; copy < kBufferCopies; ++copy) {
    x_[copy].resize(rows * hidden_);
    router_[copy].resize(rows * experts_ + 1);
    ffn_[copy].resize(rows * ffn_width_);
  }
  query_.resize(rows * query_width_);
  new_key_.resize(rows * kv_width_);
  new_value_.resize(rows * kv_width_);
  merged_.resize(rows * query_width_);
  partial_.resize(rows * query_heads_ * kMaxAttentionSplits * (head_dim_ + 2));
  candidates_.resize(size_t(worker_count) * max_sampled_);
  head_partials_.resize(max_sampled_ * vocab_units_);
  results_.resize(max_sampled_);
}

void StepBuffers::Poison() {
  constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
  const auto fill = [&](std::vector<float>& values) {
    std::fill(values.begin(), values.end(), kPoison);
  };
  for (int copy = 0; copy < kBufferCopies; ++copy) {
    fill(x_[copy]);
    fill(router_[copy]);
    fill(ffn_[copy]);
  }
  for (auto* values : {&query_, &new_key_, &new_value_, &merged_, &partial_}) fill(*values);
  std::fill(candidates_.begin(), candidates_.end(), HeadCandidate{kPoison, kPoison, -1});
  std::fill(head_partials_.begin(), head_partials_.end(), HeadPartial{kPoison, kPoison});
}

}  // namespace baton
