// Proves of a built graph what the interpreters rely on. Run at every start: a graph that does not
// pass is never executed.
#pragma once

#include "absl/status/status.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// OK if all of this holds; else InvalidArgument naming the worker, the task and what was wanted:
//  1. every task is one of the op table's, in a layer that has it, and waits for and signals
//     exactly what the op table says (so no signal is lost, doubled or goes astray);
//  2. every threshold equals the number of tasks that signal the counter;
//  3. every unit of every matrix belongs to exactly one worker, so every weight byte is used once a
//     step (once per active expert), and each worker keeps the same units from o_proj to down;
//  4. the graph runs to its end from any interleaving: no circle;
//  5. every read of a buffer comes after all writes of what it means to read, and before anything
//     else is written there, in the same step;
//     4 and 5 hold whether workers do their lists task by task or by role (ListOrder), and then
//     with a loader's rings of any size (ring_rules.h);
//  6. when the step counter is complete every task has ended, so the same holds from step to step;
//  7. counters never reset tell every step's signals from the last step's, past any wrap.
absl::Status CheckTaskGraph(const TaskGraph& graph);

}  // namespace baton
