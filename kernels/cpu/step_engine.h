// StepEngine: a model's task graph, its buffers and the interpreter that runs it, for up to
// max_rows rows a step. Decode and prefill each drive their own. One owner thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/cpu_model.h"
#include "kernels/cpu/interpreter.h"
#include "kernels/cpu/step_buffers.h"
#include "kernels/cpu/step_plan.h"
#include "kernels/cpu/worker_context.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

struct StepEngineOptions {
  int max_rows = 1;
  int max_sampled = 1;
  int worker_count = 1;
  std::optional<uint64_t> shuffle_seed;  // See InterpreterOptions; buffers are poisoned before each
                                         // step then.
};

class StepEngine {
 public:
  // The model outlives the engine.
  StepEngine(const CpuModel& model, const StepEngineOptions& options);
  ~StepEngine();

  // The next step's rows; to be changed between steps only.
  StepPlan& plan() { return plan_; }

  void Start();
  void Wait();

  // Of the last step: one per plan().sampled.
  const SampledToken& result(int sampled) { return buffers_.result(sampled); }
  // Of the last step: mean over sparse layers of the experts that any row chose; 0 without one.
  double distinct_experts() const;
  InterpreterStats stats() const { return interpreter_->stats(); }

 private:
  const StepEngineOptions options_;
  const TaskGraph graph_;
  StepBuffers buffers_;
  StepPlan plan_;
  std::vector<std::unique_ptr<WorkerContext>> contexts_;
  std::unique_ptr<Interpreter> interpreter_;  // Last: its threads use all of the above.
};

}  // namespace baton
