#include <algorithm>

#include "kernels/cpu/ops/ops.h"

namespace baton {
namespace {

// sums [rows, owned] += weight * down_e . h for every active expert, in ascending id.
void AddRouted(WorkerContext& context, const Task& task, OwnedRows owned, float* sums) {
  const LayerWeights& weights = context.model().weights().layers[task.layer];
  const size_t count = owned.size();
  std::vector<float>& products = context.scratch(1);
  auto& inputs = context.inputs();
  auto& outputs = context.outputs();
  for (const ActiveExpert& active : context.Active(task.layer, task.buffer_epoch)) {
    products.resize(active.uses.size() * count);
    inputs.clear();
    outputs.clear();
    for (size_t i = 0; i < active.uses.size(); ++i) {
      const ExpertUse& use = active.uses[i];
      inputs.push_back(context.buffers().ffn_hidden(task.buffer_epoch, use.row) +
                       size_t(use.slot) * context.config().expert_width);
      outputs.push_back(&products[i * count]);
    }
    context.model().Multiply({.matrix = weights.experts[active.expert].down,
                              .first = owned.first,
                              .count = owned.size(),
                              .inputs = inputs,
                              .outputs = outputs});
    for (size_t i = 0; i < active.uses.size(); ++i) {
      float* sum = sums + active.uses[i].row * count;
      for (size_t c = 0; c < count; ++c) sum[c] += active.uses[i].weight * outputs[i][c];
    }
  }
}

// The dense network, or the shared expert joined to the routed sum.
void AddAlwaysActive(WorkerContext& context, const Task& task, OwnedRows owned, float* sums) {
  const ModelConfig& config = context.config();
  const bool dense = config.layers[task.layer].dense;
  const size_t offset = dense ? 0 : size_t(config.experts_per_token) * config.expert_width;
  const size_t count = owned.size();
  std::vector<float>& products = context.scratch(1);
  products.resize(context.row_count() * count);
  auto& inputs = context.inputs();
  auto& outputs = context.outputs();
  inputs.clear();
  outputs.clear();
  for (int row = 0; row < context.row_count(); ++row) {
    inputs.push_back(context.buffers().ffn_hidden(task.buffer_epoch, row) + offset);
    outputs.push_back(&products[row * count]);
  }
  context.model().Multiply({.matrix = context.model().weights().layers[task.layer].down,
                            .first = owned.first,
                            .count = owned.size(),
                            .inputs = inputs,
                            .outputs = outputs});
  const float scale = !dense && config.shared == SharedExperts::kAverage ? 0.5f : 1.0f;
  for (size_t i = 0; i < products.size(); ++i) sums[i] = (sums[i] + products[i]) * scale;
}

}  // namespace

void RunDown(WorkerContext& context, const Task& task) {
  const LayerConfig& layer = context.config().layers[task.layer];
  const OwnedRows owned = RowsOf(task, context.config().hidden, kUnitRows);
  const size_t count = owned.size();
  std::vector<float>& sums = AddsToX(task) ? context.scratch(0) : context.kept_output();
  sums.assign(context.row_count() * count, 0.0f);
  if (!layer.dense) AddRouted(context, task, owned, sums.data());
  if (layer.dense || context.config().shared != SharedExperts::kNone) {
    AddAlwaysActive(context, task, owned, sums.data());
  }
  if (AddsToX(task)) AddToX(context, task, context.kept_output(), sums);
}

}  // namespace baton
