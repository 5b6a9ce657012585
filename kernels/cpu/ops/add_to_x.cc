#include "kernels/cpu/ops/ops.h"

namespace baton {

void AddToX(WorkerContext& context, const Task& task, const std::vector<float>& attention,
            const std::vector<float>& ffn) {
  const CpuModel& model = context.model();
  const OwnedRows owned = RowsOf(task, context.config().hidden, kUnitRows);
  const size_t count = owned.size();
  const int next_copy = (task.buffer_epoch + 1) % kBufferCopies;
  for (int row = 0; row < context.row_count(); ++row) {
    const float* x = context.buffers().x(task.buffer_epoch, row) + owned.first;
    float* next = context.buffers().x(next_copy, row) + owned.first;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = row * count + i;
      next[i] = model.Round(model.Round(x[i] + model.Round(attention[at])) + model.Round(ffn[at]));
    }
  }
}

}  // namespace baton
