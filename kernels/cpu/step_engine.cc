#include "kernels/cpu/step_engine.h"

#include <algorithm>

#include "common/check.h"
#include "kernels/cpu/ops/ops.h"

namespace baton {

StepEngine::StepEngine(const CpuModel& model, const StepEngineOptions& options)
    : options_(options),
      graph_(TaskGraph::Build(model.config(), options.worker_count)),
      buffers_(model.config(), graph_.shape(), options.max_rows, options.max_sampled,
               options.worker_count) {
  for (int worker = 0; worker < options.worker_count; ++worker) {
    contexts_.push_back(
        std::make_unique<WorkerContext>(model, buffers_, plan_, worker, options.worker_count));
  }
  interpreter_ = std::make_unique<Interpreter>(
      graph_,
      Interpreter::Callbacks{
          .begin_step = [this](int worker) { contexts_[worker]->BeginStep(); },
          .run = [this](int worker,
                        const Task& task) { CpuOpOf(task.op)(*contexts_[worker], task); }},
      InterpreterOptions{.shuffle_seed = options.shuffle_seed});
}

StepEngine::~StepEngine() = default;

void StepEngine::Start() {
  BATON_CHECK(plan_.rows.size() <= static_cast<size_t>(options_.max_rows));
  BATON_CHECK(plan_.sampled.size() <= static_cast<size_t>(options_.max_sampled));
  if (options_.shuffle_seed.has_value()) buffers_.Poison();
  interpreter_->Start();
}

void StepEngine::Wait() { interpreter_->Wait(); }

double StepEngine::distinct_experts() const {
  double most = 0;
  for (const auto& context : contexts_) most = std::max(most, context->distinct_experts());
  return most;
}

}  // namespace baton
