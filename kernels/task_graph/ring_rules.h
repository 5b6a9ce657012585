// Whether a worker's rings can stop for ever, as the decode kernel's loader fills them.
//
// Chunk n of a ring is issued after chunk n - 1; once the role that takes the ring's chunks has
// released chunk n - slots; of the weights, once chunk n - in_flight_chunks has landed and, for
// GateUp and Down, once the worker's own attention warps have routed the layer. The role takes
// chunk n after chunk n - 1 and once it has landed. A barrier tells the landing of its slot's last
// chunk by a parity, which another chunk in the slot turns back: so no more may be in flight than
// there are slots.
//
// Issuing in that order waits for the routing and for takes of earlier chunks, and is waited for by
// takes of later ones alone. So whatever leads through issuing leads from the routing, or from a
// take, to a later take of the same role. HappensBefore has both by role: the role's order, and
// TaskPart::after. Therefore a graph that it accepts runs with rings of any number of slots, and
// one that it refuses with none; what is left to check of a ring is order and room.
#pragma once

#include "absl/status/status.h"
#include "kernels/models/model_config.h"
#include "kernels/task_graph/ring_schedule.h"
#include "kernels/task_graph/task_graph.h"

namespace baton {

// InvalidArgument: a ring without slots, none or more than the slots' chunks in flight, a chunk
// that its slot does not hold or that is empty, a chunk of a task whose role does not take it,
// chunks out of task order, or one of GateUp or Down in a layer that the worker does not route.
absl::Status CheckRing(const RingSchedule& schedule, const RingShape& ring);

// CheckRing for each worker of `graph`, whom the error names.
absl::Status CheckEveryRing(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                            const RingShape& ring);

// The same, and that the graph by role has no circle.
absl::Status CheckRings(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                        const RingShape& ring);

}  // namespace baton
