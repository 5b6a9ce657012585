// HappensBefore: which tasks of a graph are known to have ended before which start, from the order
// of each list and from the counters. A plain value made once per graph.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

struct TaskRef {
  int worker = 0;
  int index = 0;  // In the worker's list.
};

class HappensBefore {
 public:
  // InvalidArgument if the graph cannot run to its end: its waits form a circle, or one asks for
  // more signals than there are. Thresholds equal producers, or the caller has refused the graph.
  static absl::StatusOr<HappensBefore> Of(const TaskGraph& graph);

  // `first` has ended, and what it wrote is visible, before `second` starts.
  bool Precedes(TaskRef first, TaskRef second) const {
    return first.index < clocks_[second.worker][second.index][first.worker];
  }

 private:
  // [worker][index][other worker] -> tasks of the other's list known to have ended.
  std::vector<std::vector<std::vector<uint16_t>>> clocks_;
};

}  // namespace baton
