#include "kernels/cpu/worker_context.h"

#include <utility>

#include "kernels/cpu/expert_choice.h"

namespace baton {

WorkerContext::WorkerContext(const CpuModel& model, StepBuffers& buffers, const StepPlan& plan,
                             int worker, int worker_count)
    : model_(model), buffers_(buffers), plan_(plan), worker_(worker), worker_count_(worker_count) {}

void WorkerContext::BeginStep() {
  normed_layer_ = -1;
  active_layer_ = -1;
  active_layers_ = 0;
  active_total_ = 0;
  rotations_ready_ = false;
}

const std::vector<const float*>& WorkerContext::Normed(int layer, int copy) {
  if (normed_layer_ == layer) return normed_rows_;
  normed_layer_ = layer;
  const bool final_norm = layer == config().layer_count;
  const size_t count = final_norm ? plan_.sampled.size() : plan_.rows.size();
  const size_t hidden = config().hidden;
  normed_.resize(count * hidden);
  normed_rows_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const int row = final_norm ? plan_.sampled[i].row : static_cast<int>(i);
    model_.Normalize(layer, buffers_.x(copy, row), &normed_[i * hidden]);
    normed_rows_[i] = &normed_[i * hidden];
  }
  return normed_rows_;
}

const std::vector<ActiveExpert>& WorkerContext::Active(int layer, int copy) {
  if (active_layer_ == layer) return active_;
  active_layer_ = layer;
  std::vector<ActiveExpert> experts(config().expert_count);
  std::vector<ExpertChoice> choices;
  for (int row = 0; row < row_count(); ++row) {
    ChooseExperts(model_, buffers_.router(copy, row), choices);
    for (int slot = 0; slot < static_cast<int>(choices.size()); ++slot) {
      experts[choices[slot].expert].uses.push_back({row, slot, choices[slot].weight});
    }
  }
  active_.clear();
  for (int expert = 0; expert < config().expert_count; ++expert) {
    if (experts[expert].uses.empty()) continue;
    experts[expert].expert = expert;
    active_.push_back(std::move(experts[expert]));
  }
  ++active_layers_;
  active_total_ += static_cast<int64_t>(active_.size());
  return active_;
}

void WorkerContext::ComputeRotations() {
  if (rotations_ready_) return;
  rotations_ready_ = true;
  const size_t head_dim = config().head_dim;
  rotations_.resize(plan_.rows.size() * head_dim);
  for (size_t row = 0; row < plan_.rows.size(); ++row) {
    float* cosines = &rotations_[row * head_dim];
    model_.Rotations(plan_.rows[row].position, cosines, cosines + head_dim / 2);
  }
}

const float* WorkerContext::Cosines(int row) {
  ComputeRotations();
  return &rotations_[size_t(row) * config().head_dim];
}

const float* WorkerContext::Sines(int row) { return Cosines(row) + config().head_dim / 2; }

}  // namespace baton
