// TaskGraphBuilder: lays out each worker's list and derives every wait's threshold from who
// signals. Used once by TaskGraph::Build.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/task_graph/graph_shape.h"
#include "kernels/task_graph/task.h"

namespace baton {

struct UnitRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool empty() const { return begin == end; }
  uint32_t size() const { return end - begin; }
};

// The units of `unit_count` that worker `worker` of `worker_count` owns.
UnitRange OwnedUnits(uint32_t unit_count, int worker, int worker_count);

class TaskGraphBuilder {
 public:
  TaskGraphBuilder(const GraphShape& shape, int worker_count);

  // The lists, complete with thresholds.
  std::vector<std::vector<Task>> Build();

 private:
  void AddLayer(int layer);
  void AddGateUp(int worker, int layer, uint8_t part);
  std::vector<UnitRange> RouterRanges(int layer) const;
  // Multiply-adds of the worker's tasks other than the router's in the layer, for one row.
  uint64_t LayerWork(int worker, int layer) const;
  UnitRange Owned(uint32_t unit_count, int worker) const;
  TaskWait WaitOn(CounterKind kind, int layer) const;
  uint16_t Signal(CounterKind kind, int layer) const;
  void Add(int worker, Task task) { lists_[worker].push_back(task); }
  void DeriveThresholds();

  const GraphShape& shape_;
  const int worker_count_;
  std::vector<std::vector<Task>> lists_;
};

}  // namespace baton
