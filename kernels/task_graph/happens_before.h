// HappensBefore: which parts of a graph's tasks are known to have ended before which start, from
// the order of each list and from the counters. A plain value made once per graph and ListOrder.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/task_graph/task_graph.h"
#include "kernels/task_graph/task_parts.h"

namespace baton {

struct PartRef {
  int worker = 0;
  int index = 0;  // Among the worker's parts; of its list, task by task.
};

class HappensBefore {
 public:
  // InvalidArgument if the graph cannot run to its end: its waits form a circle, or one asks for
  // more signals than there are. Thresholds equal producers, or the caller has refused the graph.
  static absl::StatusOr<HappensBefore> Of(const TaskGraph& graph,
                                          ListOrder order = ListOrder::kTaskByTask);

  ListOrder order() const { return order_; }
  const std::vector<TaskPart>& parts(int worker) const { return parts_[worker]; }

  // `first` has ended, and what it wrote is visible, before `second` starts.
  bool Precedes(PartRef first, PartRef second) const {
    return turns_[first.worker][first.index] <
           clocks_[second.worker][second.index][StrandOf(first)];
  }

 private:
  friend class OrderWalker;
  // Workers and roles together: what does one part after the other.
  int StrandOf(PartRef part) const {
    return part.worker * role_count_ +
           static_cast<int>(parts_[part.worker][part.index].role) % role_count_;
  }

  ListOrder order_ = ListOrder::kTaskByTask;
  int role_count_ = 1;
  std::vector<std::vector<TaskPart>> parts_;
  std::vector<std::vector<uint16_t>> turns_;  // [worker][part] -> place in its strand's order.
  // [worker][part][strand] -> parts of the strand known to have ended when the part starts.
  std::vector<std::vector<std::vector<uint16_t>>> clocks_;
};

}  // namespace baton
