// Rules 5 and 6 of CheckTaskGraph: no buffer is read too early or overwritten too soon.
#pragma once

#include "absl/status/status.h"
#include "kernels/task_graph/happens_before.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// The graph has passed CheckSignals. In the sense of `order`, whatever its ListOrder.
absl::Status CheckBuffers(const TaskGraph& graph, const HappensBefore& order);

}  // namespace baton
