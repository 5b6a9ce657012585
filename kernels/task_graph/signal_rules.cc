#include "kernels/task_graph/signal_rules.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/task_graph/op_contract.h"

namespace baton {
namespace {

absl::Status CheckPlace(const TaskGraph& graph, int worker, const Task& task) {
  const int layer_count = graph.shape().layer_count();
  if (static_cast<int>(task.op) >= kOpCount) return TaskError(graph, worker, task, "no such op");
  const bool at_end = task.op == OpKind::kLmHead || task.op == OpKind::kSample;
  if (at_end ? task.layer != layer_count : task.layer >= layer_count) {
    return TaskError(graph, worker, task, "no such layer for the op");
  }
  if (task.op == OpKind::kEmbed && task.layer != 0) {
    return TaskError(graph, worker, task, "wanted layer 0");
  }
  if (task.buffer_epoch != task.layer % kBufferCopies) {
    return TaskError(graph, worker, task, absl::StrCat("wanted copy ", task.layer % kBufferCopies));
  }
  if (task.op != OpKind::kGateUp && task.part != 0) {
    return TaskError(graph, worker, task, "wanted part 0");
  }
  if (at_end) return absl::OkStatus();
  const LayerShape& layer = graph.shape().layers[task.layer];
  if (task.op == OpKind::kRouter && !layer.sparse) {
    return TaskError(graph, worker, task, "a dense layer has no router");
  }
  if (task.op == OpKind::kGateUp) {
    const bool valid = task.part == kAlwaysActive ? layer.always_rows > 0
                                                  : task.part == kRoutedExperts && layer.sparse;
    if (!valid) return TaskError(graph, worker, task, "no such part in the layer");
  }
  return absl::OkStatus();
}

absl::Status CheckContract(const TaskGraph& graph, int worker, size_t index,
                           const std::vector<uint16_t>& producers) {
  const absl::Span<const Task> tasks = graph.tasks(worker);
  const Task& task = tasks[index];
  const OpContract contract = ContractOf(graph.shape(), task, IsLastGateUp(tasks, index));
  for (size_t i = 0; i < std::size(task.waits); ++i) {
    const TaskWait& wait = task.waits[i];
    const uint16_t wanted = i < contract.waits.size() ? contract.waits[i] : kNoCounter;
    if (wait.counter != wanted) {
      return TaskError(
          graph, worker, task,
          absl::StrCat("wait ", i, ": wanted counter ", wanted, ", found ", wait.counter));
    }
    const uint16_t threshold = wanted == kNoCounter ? 0 : producers[wanted];
    if (wait.producers != threshold || (wanted != kNoCounter && threshold == 0)) {
      return TaskError(graph, worker, task,
                       absl::StrCat("wait ", i, ": wanted the threshold ", threshold,
                                    " = producers, found ", wait.producers));
    }
  }
  const uint16_t signal = contract.signal.value_or(kNoCounter);
  if (task.signal != signal) {
    return TaskError(graph, worker, task,
                     absl::StrCat("signal: wanted counter ", signal, ", found ", task.signal));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TaskError(const TaskGraph& graph, int worker, const Task& task,
                       const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "worker ", worker, ": ", TaskDebugString(task, graph.shape().layer_count()), ": ", what));
}

bool IsLastGateUp(absl::Span<const Task> tasks, size_t index) {
  if (tasks[index].op != OpKind::kGateUp) return false;
  for (size_t later = index + 1; later < tasks.size(); ++later) {
    if (tasks[later].op == OpKind::kGateUp && tasks[later].layer == tasks[index].layer) {
      return false;
    }
  }
  return true;
}

absl::Status CheckSignals(const TaskGraph& graph) {
  const std::vector<uint16_t> producers = graph.ProducerCounts();
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    const absl::Span<const Task> tasks = graph.tasks(worker);
    for (size_t index = 0; index < tasks.size(); ++index) {
      BATON_RETURN_IF_ERROR(CheckPlace(graph, worker, tasks[index]));
      BATON_RETURN_IF_ERROR(CheckContract(graph, worker, index, producers));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
