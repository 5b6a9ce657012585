// WorkerContext: what an op sees: the model, the step's plan, the shared buffers, and one worker's
// own scratch. Owned by a StepEngine; used by one worker thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/cpu_model.h"
#include "kernels/cpu/step_buffers.h"
#include "kernels/cpu/step_plan.h"

namespace baton {

// A row that chose an expert.
struct ExpertUse {
  int row = 0;
  int slot = 0;  // Among the row's chosen experts, by ascending expert id.
  float weight = 0;
};

struct ActiveExpert {
  int expert = 0;
  std::vector<ExpertUse> uses;  // By row.
};

class WorkerContext {
 public:
  WorkerContext(const CpuModel& model, StepBuffers& buffers, const StepPlan& plan, int worker,
                int worker_count);

  const CpuModel& model() const { return model_; }
  const ModelConfig& config() const { return model_.config(); }
  StepBuffers& buffers() { return buffers_; }
  const StepPlan& plan() const { return plan_; }
  int worker() const { return worker_; }
  int worker_count() const { return worker_count_; }
  int row_count() const { return static_cast<int>(plan_.rows.size()); }

  // Forgets what was cached of the step before.
  void BeginStep();

  // norm(x) of every row for `layer`, whose x is complete in copy `copy`: [rows] -> [hidden].
  // Worked out once a layer. For the final norm only the sampled rows: [sampled].
  const std::vector<const float*>& Normed(int layer, int copy);

  // The experts that any row chose, ascending, from complete router logits. Once a layer.
  const std::vector<ActiveExpert>& Active(int layer, int copy);

  // Mean over this step's sparse layers so far of the experts that any row chose; 0 without one.
  double distinct_experts() const {
    return active_layers_ > 0 ? static_cast<double>(active_total_) / active_layers_ : 0;
  }

  // cosines and sines [head_dim / 2] of a row's position.
  const float* Cosines(int row);
  const float* Sines(int row);

  // What OutputProj or Down, whichever came first in the layer in work, has made for the other to
  // add: [rows, owned hidden columns].
  std::vector<float>& kept_output() { return kept_output_; }
  // Pools for the op that runs: contents last until the next op.
  std::vector<float>& scratch(int index) { return scratch_[index]; }
  std::vector<const float*>& inputs() { return inputs_; }
  std::vector<float*>& outputs() { return outputs_; }

 private:
  void ComputeRotations();

  const CpuModel& model_;
  StepBuffers& buffers_;
  const StepPlan& plan_;
  const int worker_;
  const int worker_count_;

  int normed_layer_ = -1;
  int active_layer_ = -1;
  int active_layers_ = 0;
  int64_t active_total_ = 0;
  bool rotations_ready_ = false;
  std::vector<float> normed_;
  std::vector<const float*> normed_rows_;
  std::vector<ActiveExpert> active_;
  std::vector<float> rotations_;  // [rows][cosines | sines]
  std::vector<float> kept_output_;
  std::vector<float> scratch_[4];
  std::vector<const float*> inputs_;
  std::vector<float*> outputs_;
};

}  // namespace baton
