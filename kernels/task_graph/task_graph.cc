#include "kernels/task_graph/task_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/task_graph/task_graph_builder.h"

namespace baton {
namespace {

std::string CounterName(uint16_t counter, int layer_count) {
  if (counter == kNoCounter) return "-";
  const int first = layer_count * kCountersPerLayer;
  if (counter >= CounterCount(layer_count)) return absl::StrCat("counter", counter, "?");
  if (counter == first + 1) return "head";
  if (counter == first + 2) return "step";
  return absl::StrFormat("%s[%d]",
                         CounterKindName(static_cast<CounterKind>(counter % kCountersPerLayer)),
                         counter / kCountersPerLayer);
}

}  // namespace

TaskGraph TaskGraph::Build(const ModelConfig& config, int worker_count) {
  GraphShape shape = GraphShape::Of(config);
  TaskLists lists = TaskGraphBuilder(shape, worker_count).Build();
  return TaskGraph(std::move(shape), std::move(lists));
}

TaskGraph::TaskGraph(GraphShape shape, TaskLists lists)
    : shape_(std::move(shape)), lists_(std::move(lists)) {}

size_t TaskGraph::task_count() const {
  size_t count = 0;
  for (const std::vector<Task>& list : lists_) count += list.size();
  return count;
}

std::vector<uint16_t> TaskGraph::ProducerCounts() const {
  std::vector<uint16_t> counts(counter_count(), 0);
  for (const std::vector<Task>& list : lists_) {
    for (const Task& task : list) {
      if (task.signal < counts.size()) ++counts[task.signal];
    }
  }
  return counts;
}

std::string TaskDebugString(const Task& task, int layer_count) {
  std::string text =
      absl::StrFormat("%-14s part %d layer %d units [%d, %d) copy %d", OpName(task.op), task.part,
                      task.layer, task.begin, task.end, task.buffer_epoch);
  for (const TaskWait& wait : task.waits) {
    if (wait.counter == kNoCounter) continue;
    absl::StrAppend(&text, " waits ", CounterName(wait.counter, layer_count),
                    " >= ", wait.producers);
  }
  if (task.signal != kNoCounter) {
    absl::StrAppend(&text, " signals ", CounterName(task.signal, layer_count));
  }
  return text;
}

std::string TaskGraph::DebugString() const {
  std::string text;
  for (int worker = 0; worker < worker_count(); ++worker) {
    for (const Task& task : lists_[worker]) {
      absl::StrAppend(&text, "worker ", worker, ": ", TaskDebugString(task, shape_.layer_count()),
                      "\n");
    }
  }
  return text;
}

}  // namespace baton
