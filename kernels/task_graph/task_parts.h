// TaskPart: a stretch of a task that one group of threads does without a break. A CPU worker does
// its list task by task. On a GPU the warps of a worker walk the same list by role, each doing its
// part of every task, side by side: the multiplying warps, the warps that finish and write the
// products, and the warps that route and attend. The multiplying warps are not at one place either:
// one may be tasks ahead of another, within a layer. The loader's issuing of a role's chunks is
// counted as that role's: why it may be, ring_rules.h says.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/task_graph/op_contract.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

enum class ListOrder : uint8_t {
  kTaskByTask,  // A task starts when the last has ended.
  kByRole,      // Only the parts of one role are done in list order.
};

enum class Role : uint8_t { kMultiply, kAttend, kFinish };
inline constexpr int kRoleCount = 3;

// The role that takes what the op reads: the chunks of a product, the pages of attention.
Role RoleOf(OpKind op);

// A product whose chunks are known once the worker's routing of the layer is, of a dense one too.
bool IsRouted(OpKind op);

struct TaskPart {
  int task = 0;  // Index in the worker's list.
  Role role = Role::kMultiply;
  // From the router's logits to the layer's list of active experts, in the worker's own memory; at
  // the head of Attention.
  bool routing = false;
  std::vector<TaskWait> waits;
  uint16_t signal = kNoCounter;
  // Indices among the worker's parts, -1: none. `after` has ended before this part starts. `behind`
  // has by then been left by a thread of its role, which says nothing of the data. `beside` is
  // followed piece by piece: this part starts after its start and ends after its end.
  int after = -1;
  int behind = -1;
  int beside = -1;
};

// The parts of the worker's list, in list order; task by task they are the tasks themselves.
// By role, packets (of x up to eight rows, the router's logits, q, k and v and, of a sole row, the
// merged heads) count as the counters of the same data: who has seen every packet of the rows it
// needs has seen the end of every writer but for its signal. The packets of a row's choices, which
// follow all of its logits, count as written with these by the router.
std::vector<TaskPart> PartsOf(const TaskGraph& graph, int worker, ListOrder order);

// What `part` reads and writes. The tasks' ops, parts and layers are valid.
struct PartAccesses {
  std::vector<BufferAccess> reads;
  std::vector<BufferAccess> writes;
};
PartAccesses AccessesOf(const TaskGraph& graph, int worker, const TaskPart& part, ListOrder order);

}  // namespace baton
