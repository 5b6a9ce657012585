// Whether a worker's ring can stop for ever: the rule of the loader against every order in which
// chunks may become known and be taken.
//
// Of the queues' next chunks the loader issues the known one of the first task. If that is the
// first of all, a free slot is enough; if an unknown one comes before it, more than `reserve` must
// be free. Consumers take chunks in task order, one group of them all, or one the weights and one
// the K/V pages. A task's chunks can be taken once this worker has done its own part of what the
// task waits for (the other workers' parts come likewise). A layer's routing becomes known at some
// time after this worker's part for it: its Router task and the Down (or Embed) that makes its x;
// with two groups also all of attention in the layers before.
#pragma once

#include "absl/status/status.h"
#include "kernels/models/model_config.h"
#include "kernels/task_graph/ring_schedule.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// Walks every state of the ring that some timing can reach. InvalidArgument: a chunk larger than a
// slot, chunks out of task order, or a state in which nothing can move although chunks are left
// (which chunk, and what fills the slots).
absl::Status CheckRing(const RingSchedule& schedule, const RingShape& ring);

// CheckRing for each kind of worker of `graph`.
absl::Status CheckRings(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                        const RingShape& ring);

}  // namespace baton
