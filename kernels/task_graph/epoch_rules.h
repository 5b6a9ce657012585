// Rule 7 of CheckTaskGraph: counters that only grow, and wrap, tell a step's signals from the last
// step's.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// As a device compares: `seen` has reached `target`, both modulo 2^32 and less than 2^31 apart.
inline bool HasReached(uint32_t seen, uint32_t target) {
  return static_cast<int32_t>(seen - target) >= 0;
}

// In every step from the first to the 2^32nd, past each wrap, a wait holds once the step's last
// signal has come and not one signal earlier. Steps do not overlap: one is a launch of its own.
absl::Status CheckEpochs(const TaskGraph& graph);

}  // namespace baton
