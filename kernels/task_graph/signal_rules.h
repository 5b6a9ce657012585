// Rules 1 and 2 of CheckTaskGraph: waits and signals are those of the op table, and thresholds
// those of the signals.
#pragma once

#include "absl/status/status.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

absl::Status CheckSignals(const TaskGraph& graph);

// The task is its worker's last GateUp of its layer: the one that signals hidden.
bool IsLastGateUp(absl::Span<const Task> tasks, size_t index);

// InvalidArgument about a task of a worker's list.
absl::Status TaskError(const TaskGraph& graph, int worker, const Task& task,
                       const std::string& what);

}  // namespace baton
