// The ops of a decode step on the CPU, one function per op of the table, each in its own file. An
// op does its worker's share of `task` for all rows; it has what it waits for when it runs, and
// what it writes counts as published once it returns.
#pragma once

#include <vector>

#include "kernels/cpu/worker_context.h"
#include "kernels/task_graph/op_table.h"
#include "kernels/task_graph/task.h"

namespace baton {

#define BATON_DECLARE_OP(name) void Run##name(WorkerContext& context, const Task& task);
BATON_FOR_EACH_OP(BATON_DECLARE_OP)
#undef BATON_DECLARE_OP

using CpuOp = void (*)(WorkerContext& context, const Task& task);

inline CpuOp CpuOpOf(OpKind op) {
  constexpr CpuOp kOps[] = {
#define BATON_OP_ENTRY(name) Run##name,
      BATON_FOR_EACH_OP(BATON_OP_ENTRY)
#undef BATON_OP_ENTRY
  };
  return kOps[static_cast<int>(op)];
}

// Rows [first, last) of the matrix that the task's units cover; the last unit may be partial.
struct OwnedRows {
  int64_t first = 0;
  int64_t last = 0;
  int64_t size() const { return last - first; }
};

inline OwnedRows RowsOf(const Task& task, int64_t row_count, int unit_rows) {
  const int64_t last = int64_t{task.end} * unit_rows;
  return {int64_t{task.begin} * unit_rows, last < row_count ? last : row_count};
}

// What ends a layer: x of the next one = x + attention + ffn, for the owned columns of all rows,
// [rows, owned] each.
void AddToX(WorkerContext& context, const Task& task, const std::vector<float>& attention,
            const std::vector<float>& ffn);

}  // namespace baton
