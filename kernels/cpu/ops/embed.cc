#include "kernels/cpu/ops/ops.h"

namespace baton {

void RunEmbed(WorkerContext& context, const Task& task) {
  const TensorView& embedding = context.model().weights().embedding;
  const int64_t hidden = context.config().hidden;
  const OwnedRows owned = RowsOf(task, hidden, kUnitRows);
  for (int row = 0; row < context.row_count(); ++row) {
    float* x = context.buffers().x(task.buffer_epoch, row) + owned.first;
    CopyToFloat(embedding, context.plan().rows[row].token * hidden + owned.first, owned.size(), x);
    for (int64_t i = 0; i < owned.size(); ++i) x[i] = context.model().Round(x[i]);
  }
}

}  // namespace baton
