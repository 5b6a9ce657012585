#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops/ops.h"

namespace baton {
namespace {

// merged [head_dim] of one row and query head: the splits in order, then the row's own key.
void Merge(WorkerContext& context, int row, int head, int split_count) {
  const ModelConfig& config = context.config();
  const int head_dim = config.head_dim;
  StepBuffers& buffers = context.buffers();
  const size_t kv_offset = size_t(head / (config.query_heads / config.kv_heads)) * head_dim;
  const float* query = buffers.query(row) + size_t(head) * head_dim;
  const float* value = buffers.new_value(row) + kv_offset;
  float own_score = 0;
  float* score = &own_score;
  context.model().loops().dot_f32({.weights = buffers.new_key(row) + kv_offset,
                                   .out_count = 1,
                                   .columns = head_dim,
                                   .inputs = &query,
                                   .row_count = 1,
                                   .outputs = &score});
  own_score *= 1.0f / std::sqrt(static_cast<float>(head_dim));
  float maximum = own_score;
  for (int split = 0; split < split_count; ++split) {
    maximum = std::max(maximum, buffers.partial(row, head, split)[head_dim]);
  }
  float* merged = buffers.merged(row) + size_t(head) * head_dim;
  std::fill_n(merged, head_dim, 0.0f);
  float sum = 0;
  for (int split = 0; split < split_count; ++split) {
    const float* partial = buffers.partial(row, head, split);
    const float factor = std::exp(partial[head_dim] - maximum);
    sum += partial[head_dim + 1] * factor;
    for (int i = 0; i < head_dim; ++i) merged[i] += partial[i] * factor;
  }
  const float own = std::exp(own_score - maximum);
  sum += own;
  for (int i = 0; i < head_dim; ++i) {
    merged[i] = context.model().Round((merged[i] + own * value[i]) / sum);
  }
}

}  // namespace

void RunAttentionMerge(WorkerContext& context, const Task& task) {
  const ModelConfig& config = context.config();
  const int window = config.layers[task.layer].sliding ? config.window_keys : 0;
  const int worker_count = context.worker_count();
  for (int row = 0; row < context.row_count(); ++row) {
    const int split_count = SplitCount(CachedKeys(context.plan().rows[row].position, window));
    for (int head = 0; head < config.query_heads; ++head) {
      if ((row * config.query_heads + head) % worker_count != context.worker()) continue;
      Merge(context, row, head, split_count);
    }
  }
}

}  // namespace baton
