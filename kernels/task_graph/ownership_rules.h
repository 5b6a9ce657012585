// Rule 3 of CheckTaskGraph: every unit of every matrix has one owner.
#pragma once

#include "absl/status/status.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

absl::Status CheckOwnership(const TaskGraph& graph);

}  // namespace baton
