#include "kernels/cpu/ops/ops.h"
#include "kernels/task_graph/graph_shape.h"

namespace baton {
namespace {

// One network's gate and up: h = silu(gate) * up for rows `owned` of both, `inputs` -> `hidden`
// (pointers to the first owned element of each row). Hugging Face rounds gate, up, silu and the
// product.
struct Network {
  const TensorView& gate;
  const TensorView& up;
  OwnedRows owned;
};

void RunNetwork(WorkerContext& context, const Network& network,
                const std::vector<const float*>& inputs, const std::vector<float*>& hidden) {
  const CpuModel& model = context.model();
  const size_t count = network.owned.size();
  std::vector<float>& up = context.scratch(0);
  up.resize(inputs.size() * count);
  std::vector<float*>& up_rows = context.outputs();
  up_rows.clear();
  for (size_t i = 0; i < inputs.size(); ++i) up_rows.push_back(&up[i * count]);
  model.Multiply({network.gate, network.owned.first, network.owned.size(), inputs, hidden});
  model.Multiply({network.up, network.owned.first, network.owned.size(), inputs, up_rows});
  std::vector<float>& exps = context.scratch(1);
  exps.resize(count);
  for (size_t row = 0; row < inputs.size(); ++row) {
    float* h = hidden[row];
    for (size_t i = 0; i < count; ++i) {
      h[i] = model.Round(h[i]);
      exps[i] = -h[i];
    }
    model.loops().exp_shifted(exps.data(), count, 0.0f);
    for (size_t i = 0; i < count; ++i) {
      const float silu = model.Round(h[i] / (1.0f + exps[i]));
      h[i] = model.Round(silu * model.Round(up_rows[row][i]));
    }
  }
}

}  // namespace

void RunGateUp(WorkerContext& context, const Task& task) {
  const ModelConfig& config = context.config();
  const LayerWeights& weights = context.model().weights().layers[task.layer];
  const auto& normed = context.Normed(task.layer, task.buffer_epoch);
  const OwnedRows owned{task.begin, task.end};
  const bool dense = config.layers[task.layer].dense;
  const int64_t routed_width = dense ? 0 : int64_t{config.experts_per_token} * config.expert_width;
  std::vector<float*> hidden;
  if (task.part == kAlwaysActive) {
    for (int row = 0; row < context.row_count(); ++row) {
      hidden.push_back(context.buffers().ffn_hidden(task.buffer_epoch, row) + routed_width +
                       owned.first);
    }
    return RunNetwork(context, {weights.gate, weights.up, owned}, normed, hidden);
  }
  std::vector<const float*>& inputs = context.inputs();
  for (const auto& active : context.Active(task.layer, task.buffer_epoch)) {
    inputs.clear();
    hidden.clear();
    for (const ExpertUse& use : active.uses) {
      inputs.push_back(normed[use.row]);
      hidden.push_back(context.buffers().ffn_hidden(task.buffer_epoch, use.row) +
                       int64_t{use.slot} * config.expert_width + owned.first);
    }
    const ExpertWeights& expert = weights.experts[active.expert];
    RunNetwork(context, {expert.gate, expert.up, owned}, inputs, hidden);
  }
}

}  // namespace baton
