#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops/ops.h"
#include "kernels/task_graph/graph_shape.h"

namespace baton {
namespace {

// Natural logarithm of the sum of exp over all logits of a row, from its units in order.
float LogSumExp(StepBuffers& buffers, int sampled, int unit_count) {
  float maximum = buffers.head_partial(sampled, 0).maximum;
  for (int unit = 1; unit < unit_count; ++unit) {
    maximum = std::max(maximum, buffers.head_partial(sampled, unit).maximum);
  }
  double sum = 0;
  for (int unit = 0; unit < unit_count; ++unit) {
    const HeadPartial& partial = buffers.head_partial(sampled, unit);
    sum += static_cast<double>(partial.sum * std::exp(partial.maximum - maximum));
  }
  return maximum + static_cast<float>(std::log(sum));
}

}  // namespace

// Stop ids and limits are the runner's matter: it takes the results of a finished step.
void RunSample(WorkerContext& context, const Task&) {
  StepBuffers& buffers = context.buffers();
  const auto unit_count = static_cast<int>(UnitsFor(context.config().vocab));
  const int sampled_count = static_cast<int>(context.plan().sampled.size());
  for (int i = context.worker(); i < sampled_count; i += context.worker_count()) {
    HeadCandidate best;
    for (int worker = 0; worker < context.worker_count(); ++worker) {
      const HeadCandidate& candidate = buffers.candidate(worker, i);
      // Workers own ascending ranges, so that a tie goes to the lowest id.
      if (candidate.token >= 0 && (best.token < 0 || candidate.key > best.key)) best = candidate;
    }
    buffers.result(i) = {best.token, best.logit - LogSumExp(buffers, i, unit_count)};
  }
}

}  // namespace baton
