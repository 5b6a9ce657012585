// OpContract: what each task of a graph has to wait for, signal, read and write, said once more
// apart from the builder, so that the checker does not believe what it checks. Source: the comment
// of op_table.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/task_graph/graph_shape.h"
#include "kernels/task_graph/task.h"

namespace baton {

// Memory that tasks hand to each other. The first three rotate over kBufferCopies copies.
enum class Buffer : uint8_t {
  kX,
  kRouterLogits,
  kHidden,
  kQkv,         // q, new keys, new values, and the pages.
  kPartial,     // Attention's splits.
  kMerged,      // Attention's output.
  kKept,        // A worker's own part of o_proj's output or down's, whichever comes first.
  kHead,        // Candidates and log-sum-exp.
  kRowState,    // Token and position of each row; what the next step begins with.
  kChoices,     // Each row's experts, where one GPU worker selects them for all.
  kExpertList,  // A GPU worker's own list of the layer's active experts.
};

inline const char* BufferName(Buffer buffer) {
  constexpr const char* kNames[] = {"x",         "router logits", "hidden",     "qkv",
                                    "partial",   "merged",        "kept",       "head",
                                    "row state", "choices",       "expert list"};
  return kNames[static_cast<int>(buffer)];
}

// One use of a buffer: `version` names what is meant (x of layer l, …), `copy` where the task
// looks.
struct BufferAccess {
  Buffer buffer = Buffer::kX;
  int copy = 0;
  int version = 0;
};

struct OpContract {
  std::vector<uint16_t> waits;     // Counters, in the order of Task::waits.
  std::optional<uint16_t> signal;  // Unset: signals nothing.
  std::vector<BufferAccess> reads;
  std::vector<BufferAccess> writes;
};

// What `task` must be like in a graph of `shape`; its op, part and layer are valid.
// `signals_hidden`: it is its worker's last GateUp of the layer.
OpContract ContractOf(const GraphShape& shape, const Task& task, bool signals_hidden);

}  // namespace baton
