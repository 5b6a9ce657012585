#include "kernels/cpu/ops/ops.h"

namespace baton {

void RunRouter(WorkerContext& context, const Task& task) {
  const OwnedRows owned = RowsOf(task, context.config().expert_count, kUnitRows);
  const auto& normed = context.Normed(task.layer, task.buffer_epoch);
  auto& outputs = context.outputs();
  outputs.clear();
  for (int row = 0; row < context.row_count(); ++row) {
    outputs.push_back(context.buffers().router(task.buffer_epoch, row) + owned.first);
  }
  context.model().Multiply({.matrix = context.model().weights().layers[task.layer].router,
                            .first = owned.first,
                            .count = owned.size(),
                            .inputs = normed,
                            .outputs = outputs});
  for (float* logits : outputs) {
    for (int64_t i = 0; i < owned.size(); ++i) logits[i] = context.model().Round(logits[i]);
  }
}

}  // namespace baton
