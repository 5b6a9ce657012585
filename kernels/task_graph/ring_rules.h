// Whether a worker's ring can stop for ever: the rule of the loader against every order in which
// chunks may become known and be taken.
//
// The loader issues, of the queues' next chunks that are known, the one whose task comes first. A
// slot must be free; more than `reserve` of them if another queue's next chunk, known or not, comes
// earlier still. While experts' gate and up could be issued and pages hold `most_kv` slots, pages
// are left out of the choice.
//
// Two roles take chunks, each in task order: the multiplying warps weights, the attention warps
// pages. A layer's pages are taken once this worker has done its part of the layer's routing and
// queries, its output projection and all after it once its pages have been, and nothing of the
// next layer before that. A layer's experts become known at some time after this worker has done
// its part for it: the Router task and what makes the layer's x.
#pragma once

#include "absl/status/status.h"
#include "kernels/models/model_config.h"
#include "kernels/task_graph/ring_schedule.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// Walks every state of the ring that some timing can reach. InvalidArgument: a chunk larger than a
// slot, chunks out of task order, or a state in which nothing can move although chunks are left
// (which chunk, and what fills the slots). Layers that look alike are walked once.
absl::Status CheckRing(const RingSchedule& schedule, const RingShape& ring);

// CheckRing for each kind of worker of `graph`.
absl::Status CheckRings(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                        const RingShape& ring);

}  // namespace baton
