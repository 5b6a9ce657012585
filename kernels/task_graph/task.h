// The unit of work: the same 32 bytes on the host, in the CPU interpreter and in the megakernel.
// Ids only, no addresses, so that the bytes can be dumped, compared and checked.
//
// Counters only grow. A task runs once every wait w holds: counter[w.counter] >= w.producers *
// step, with step = 1, 2, … since the counters were zeroed. When done it adds one to `signal`.
// Nothing is reset between steps.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/task_graph/op_table.h"

namespace baton {

inline constexpr uint16_t kNoCounter = 0xffff;

// Copies of the buffers that rotate with the layer: x, router logits, hidden.
inline constexpr int kBufferCopies = 3;

struct TaskWait {
  uint16_t counter = kNoCounter;
  uint16_t producers =
      0;  // Signals a step: derived by the builder from who signals, never typed by hand.
};

struct alignas(16) Task {
  OpKind op = OpKind::kEmbed;
  uint8_t part = 0;  // GateUp: a GateUpPart (graph_shape.h): the active routed experts, or the
                     // dense network or shared expert.
  uint16_t layer = 0;
  // Owned units [begin, end): of 8 output rows (Embed, Router, QkvRope, OutputProj, Down, LmHead;
  // for Embed and Down, of the hidden dimension), of one row of gate and up (GateUp). Unused by
  // Attention, AttentionMerge and Sample, whose share follows from the worker's index and the live
  // rows. Never empty where used: a worker that owns nothing of a matrix has no task there.
  uint32_t begin = 0;
  uint32_t end = 0;
  TaskWait waits[2];
  uint16_t signal = kNoCounter;
  uint16_t buffer_epoch = 0;  // Which copy of the layer-rotated buffers (x, router logits, hidden)
                              // the task uses: layer % 3. Who adds to x writes the next copy.
  // Place in the worker's list and, of a role that walks a part of it, in that part.
  uint16_t index = 0, role_index = 0;
};
static_assert(sizeof(Task) == 32);
static_assert(std::is_trivially_copyable_v<Task>);

// Whether the task, OutputProj or Down, is the later one of its layer, which adds what both made to
// x.
constexpr bool AddsToX(const Task& task) { return task.signal != kNoCounter; }

}  // namespace baton
