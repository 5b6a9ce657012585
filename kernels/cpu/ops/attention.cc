#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops/ops.h"

namespace baton {
namespace {

// One split of one row's cached keys for one kv head and the query heads that share it.
struct AttentionItem {
  int layer = 0;
  int row = 0;
  int kv_head = 0;
  int split = 0;
  KeyRange keys;
};

// Calls function(first position, count) for each stretch of `keys` within one page.
template <typename Function>
void ForEachPage(KeyRange keys, Function function) {
  for (int begin = keys.begin; begin < keys.end;) {
    const int end = std::min(keys.end, (begin / kPageTokens + 1) * kPageTokens);
    function(begin, end - begin);
    begin = end;
  }
}

// scores [group, keys] = scale * q . k
void Score(WorkerContext& context, const AttentionItem& item, std::vector<float>& scores) {
  const ModelConfig& config = context.config();
  const int group = config.query_heads / config.kv_heads;
  const int key_count = item.keys.end - item.keys.begin;
  const StepRow& row = context.plan().rows[item.row];
  const KvView& kv = context.plan().kv;
  scores.resize(size_t(group) * key_count);
  auto& queries = context.inputs();
  auto& outputs = context.outputs();
  queries.clear();
  for (int g = 0; g < group; ++g) {
    queries.push_back(context.buffers().query(item.row) +
                      size_t(item.kv_head * group + g) * config.head_dim);
  }
  ForEachPage(item.keys, [&](int first, int count) {
    outputs.clear();
    for (int g = 0; g < group; ++g) {
      outputs.push_back(&scores[size_t(g) * key_count + first - item.keys.begin]);
    }
    const DotBlock block{.weights = kv.At(*row.pages, item.layer, first, 0, item.kv_head),
                         .out_count = count,
                         .columns = config.head_dim,
                         .inputs = queries.data(),
                         .row_count = group,
                         .outputs = outputs.data()};
    const InnerLoops& loops = context.model().loops();
    (kv.layout->element_bytes == 2 ? loops.dot_bf16 : loops.dot_f32)(block);
  });
  const float scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  for (float& score : scores) score *= scale;
}

// Partial result of one query head from its scores [keys], which are overwritten.
void Accumulate(WorkerContext& context, const AttentionItem& item, int head, float* scores) {
  const int head_dim = context.config().head_dim;
  const int key_count = item.keys.end - item.keys.begin;
  const InnerLoops& loops = context.model().loops();
  const KvView& kv = context.plan().kv;
  const float maximum = *std::max_element(scores, scores + key_count);
  loops.exp_shifted(scores, key_count, maximum);
  float sum = 0;
  for (int i = 0; i < key_count; ++i) sum += scores[i];
  float* partial = context.buffers().partial(item.row, head, item.split);
  std::fill_n(partial, head_dim, 0.0f);
  partial[head_dim] = maximum;
  partial[head_dim + 1] = sum;
  ForEachPage(item.keys, [&](int first, int count) {
    const WeightedRows rows{
        .values = kv.At(*context.plan().rows[item.row].pages, item.layer, first, 1, item.kv_head),
        .factors = scores + (first - item.keys.begin),
        .row_count = count,
        .columns = head_dim,
        .sums = partial};
    (kv.layout->element_bytes == 2 ? loops.add_rows_bf16 : loops.add_rows_f32)(rows);
  });
}

void RunItem(WorkerContext& context, const AttentionItem& item) {
  std::vector<float>& scores = context.scratch(0);
  Score(context, item, scores);
  const int group = context.config().query_heads / context.config().kv_heads;
  const int key_count = item.keys.end - item.keys.begin;
  for (int g = 0; g < group; ++g) {
    Accumulate(context, item, item.kv_head * group + g, &scores[size_t(g) * key_count]);
  }
}

}  // namespace

void RunAttention(WorkerContext& context, const Task& task) {
  const ModelConfig& config = context.config();
  const int window = config.layers[task.layer].sliding ? config.window_keys : 0;
  int index = 0;
  for (int row = 0; row < context.row_count(); ++row) {
    const KeyRange keys = CachedKeys(context.plan().rows[row].position, window);
    const int split_count = SplitCount(keys);
    for (int item = 0; item < split_count * config.kv_heads; ++item) {
      if (index++ % context.worker_count() != context.worker()) continue;
      const int split = item / config.kv_heads;
      RunItem(context, {.layer = task.layer,
                        .row = row,
                        .kv_head = item % config.kv_heads,
                        .split = split,
                        .keys = Split(keys, split)});
    }
  }
}

}  // namespace baton
