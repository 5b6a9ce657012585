// TaskGraph: the per-worker task lists of one decode step. Built once per model and worker count,
// immutable after, so that any thread may read it; the CPU interpreter and the megakernel walk the
// same lists.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/models/model_config.h"
#include "kernels/task_graph/graph_shape.h"
#include "kernels/task_graph/task.h"

namespace baton {

using TaskLists = std::vector<std::vector<Task>>;  // [worker][order]

class TaskGraph {
 public:
  // The graph of `config` for `worker_count` workers (at least 1). Every matrix is split in
  // contiguous ranges, worker i owning units [U * i / W, U * (i + 1) / W). The router's go to the
  // workers with the fewest units of QkvRope, among these to those with the least work in the
  // layer. A worker whose range is empty has no task there.
  static TaskGraph Build(const ModelConfig& config, int worker_count);

  // A graph of lists made elsewhere: tests change them to see the checker refuse.
  TaskGraph(GraphShape shape, TaskLists lists);

  const GraphShape& shape() const { return shape_; }
  int worker_count() const { return static_cast<int>(lists_.size()); }
  absl::Span<const Task> tasks(int worker) const { return lists_[worker]; }
  const TaskLists& lists() const { return lists_; }
  int counter_count() const { return CounterCount(shape_.layer_count()); }
  size_t task_count() const;

  // Signals a step of each counter [counter_count], counted from the lists. Signals to counters
  // that do not exist are left out.
  std::vector<uint16_t> ProducerCounts() const;

  // One line per task: worker, op, layer, range, waits, signal.
  std::string DebugString() const;

 private:
  GraphShape shape_;
  TaskLists lists_;
};

// One line that describes `task`.
std::string TaskDebugString(const Task& task, int layer_count);

}  // namespace baton
