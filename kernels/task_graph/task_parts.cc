#include "kernels/task_graph/task_parts.h"

#include <map>

#include "kernels/task_graph/signal_rules.h"

namespace baton {
namespace {

bool IsProduct(OpKind op) { return RoleOf(op) == Role::kMultiply; }

std::vector<TaskWait> WaitsOf(const Task& task) {
  std::vector<TaskWait> waits;
  for (const TaskWait& wait : task.waits) {
    if (wait.counter != kNoCounter) waits.push_back(wait);
  }
  return waits;
}

// Splits one worker's list by role.
class RoleSplitter {
 public:
  RoleSplitter(const TaskGraph& graph, int worker)
      : graph_(graph), tasks_(graph.tasks(worker)), producers_(graph.ProducerCounts()) {}

  std::vector<TaskPart> Split() {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      task_ = static_cast<int>(i);
      if (tasks_[i].op == OpKind::kAttention) AddRouting(tasks_[i]);
      if (IsProduct(tasks_[i].op)) {
        AddProduct(tasks_[i]);
      } else {
        parts_.push_back({.task = task_,
                          .role = RoleOf(tasks_[i].op),
                          .waits = WaitsOf(tasks_[i]),
                          .signal = tasks_[i].signal});
      }
    }
    // What is multiplied depends on the list that the worker's own attention warps make: before
    // that not even the chunks are known.
    for (TaskPart& part : parts_) {
      const Task& task = tasks_[part.task];
      if (part.role != Role::kMultiply || !IsRouted(task.op)) continue;
      const auto routing = routing_.find(task.layer);
      if (routing != routing_.end()) part.after = routing->second;
    }
    return std::move(parts_);
  }

 private:
  void AddRouting(const Task& task) {
    const bool sparse =
        task.layer < graph_.shape().layers.size() && graph_.shape().layers[task.layer].sparse;
    const uint16_t counter = CounterId(sparse ? CounterKind::kRouter : CounterKind::kX, task.layer,
                                       graph_.shape().layer_count());
    routing_[task.layer] = static_cast<int>(parts_.size());
    parts_.push_back({.task = task_,
                      .role = Role::kAttend,
                      .routing = true,
                      .waits = {{counter, producers_[counter]}},
                      .behind = LastProductBefore(task.layer)});
  }
  // With more than eight rows nobody looks for logits before the worker's multiplying warps are at
  // the layer; with fewer the logits, made of x, say as much.
  int LastProductBefore(int layer) const {
    for (int i = static_cast<int>(parts_.size()) - 1; i >= 0; --i) {
      const TaskPart& part = parts_[i];
      if (part.role == Role::kMultiply && tasks_[part.task].layer < layer) return i;
    }
    return -1;
  }

  void AddProduct(const Task& task) {
    TaskPart multiply{.task = task_, .role = Role::kMultiply, .waits = WaitsOf(task)};
    if (task.op == OpKind::kGateUp) {
      // The router's counter is not read: the list stands for it.
      const uint16_t router =
          CounterId(CounterKind::kRouter, task.layer, graph_.shape().layer_count());
      std::erase_if(multiply.waits,
                    [router](const TaskWait& wait) { return wait.counter == router; });
    }
    parts_.push_back(std::move(multiply));
    // That the multiplying warps wait for these when they are some tiles ahead closes no circle:
    // nothing but their own tiles is waited for here.
    parts_.push_back({.task = task_,
                      .role = Role::kFinish,
                      .signal = task.signal,
                      .beside = static_cast<int>(parts_.size()) - 1});
  }

  const TaskGraph& graph_;
  const absl::Span<const Task> tasks_;
  const std::vector<uint16_t> producers_;
  int task_ = 0;
  std::vector<TaskPart> parts_;
  std::map<int, int> routing_;  // Layer -> part.
};

// The role that reads `buffer` for a product.
Role ReaderOf(OpKind op, Buffer buffer) {
  const bool adds = op == OpKind::kOutputProj || op == OpKind::kDown;
  const bool finish = buffer == Buffer::kKept || (adds && buffer == Buffer::kX);
  return finish ? Role::kFinish : Role::kMultiply;
}

}  // namespace

Role RoleOf(OpKind op) {
  switch (op) {
    case OpKind::kAttention:
    case OpKind::kAttentionMerge:
      return Role::kAttend;
    case OpKind::kEmbed:
    case OpKind::kSample:
      return Role::kFinish;
    default:
      return Role::kMultiply;
  }
}

bool IsRouted(OpKind op) { return op == OpKind::kGateUp || op == OpKind::kDown; }

std::vector<TaskPart> PartsOf(const TaskGraph& graph, int worker, ListOrder order) {
  if (order == ListOrder::kByRole) return RoleSplitter(graph, worker).Split();
  std::vector<TaskPart> parts;
  for (const Task& task : graph.tasks(worker)) {
    parts.push_back(
        {.task = static_cast<int>(parts.size()), .waits = WaitsOf(task), .signal = task.signal});
  }
  return parts;
}

PartAccesses AccessesOf(const TaskGraph& graph, int worker, const TaskPart& part, ListOrder order) {
  const absl::Span<const Task> tasks = graph.tasks(worker);
  const Task& task = tasks[part.task];
  OpContract contract = ContractOf(graph.shape(), task, IsLastGateUp(tasks, part.task));
  if (order == ListOrder::kTaskByTask) return {contract.reads, contract.writes};
  const BufferAccess list{Buffer::kExpertList, 0, task.layer};
  const BufferAccess choices{Buffer::kChoices, 0, task.layer};
  if (part.routing) {
    PartAccesses routing{.writes = {list}};
    if (graph.shape().layers[task.layer].sparse)
      routing.reads = {{Buffer::kRouterLogits, task.buffer_epoch, task.layer}, choices};
    return routing;
  }
  if (!IsProduct(task.op)) return {contract.reads, contract.writes};
  PartAccesses accesses;
  for (const BufferAccess& read : contract.reads) {
    // The logits were read by the routing.
    if (read.buffer != Buffer::kRouterLogits && ReaderOf(task.op, read.buffer) == part.role)
      accesses.reads.push_back(read);
  }
  if (task.op == OpKind::kGateUp || (task.op == OpKind::kDown && part.role == Role::kMultiply))
    accesses.reads.push_back(list);
  if (part.role == Role::kFinish) accesses.writes = std::move(contract.writes);
  if (part.role == Role::kFinish && task.op == OpKind::kRouter) accesses.writes.push_back(choices);
  return accesses;
}

}  // namespace baton
