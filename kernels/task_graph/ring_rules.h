// Whether a worker's ring can stop for ever: the rule of the loader against every order in which
// chunks may become known and be taken.
//
// The loader holds back nothing that its queue's order allows: of the two queues' next chunks it
// issues the one whose task comes first, if that chunk is known and a slot is free; else the other
// one, but only while more than `reserve` slots stay free. Consumers take chunks in task order. A
// layer's routing becomes known at some time after this worker has done its part for it: the
// layer's Router task and the Down (or Embed) task that makes its x.
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
