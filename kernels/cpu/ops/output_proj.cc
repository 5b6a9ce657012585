#include "kernels/cpu/ops/ops.h"

namespace baton {

void RunOutputProj(WorkerContext& context, const Task& task) {
  const OwnedRows owned = RowsOf(task, context.config().hidden, kUnitRows);
  std::vector<float>& result = AddsToX(task) ? context.scratch(0) : context.kept_output();
  result.resize(size_t(context.row_count()) * owned.size());
  auto& inputs = context.inputs();
  auto& outputs = context.outputs();
  inputs.clear();
  outputs.clear();
  for (int row = 0; row < context.row_count(); ++row) {
    inputs.push_back(context.buffers().merged(row));
    outputs.push_back(&result[size_t(row) * owned.size()]);
  }
  context.model().Multiply({.matrix = context.model().weights().layers[task.layer].o,
                            .first = owned.first,
                            .count = owned.size(),
                            .inputs = inputs,
                            .outputs = outputs});
  if (AddsToX(task)) AddToX(context, task, result, context.kept_output());
}

}  // namespace baton
