#include "kernels/task_graph/ring_rules.h"

#include <cstdint>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/task_graph/happens_before.h"
#include "kernels/task_graph/task_parts.h"

namespace baton {
namespace {

// One of the worker's two rings.
struct RingView {
  const char* name;
  const std::vector<RingChunk>& chunks;
  int slots;
  int slot_bytes;
};

bool Takes(const RingSchedule& schedule, const RingView& ring, OpKind op) {
  return &ring.chunks == &schedule.kv ? op == OpKind::kAttention : RoleOf(op) == Role::kMultiply;
}

absl::Status CheckChunks(const RingSchedule& schedule, const RingView& ring) {
  if (ring.slots < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("ring of ", ring.name, ": wanted a slot or more, found ", ring.slots));
  }
  std::set<int> routed_layers;
  for (const Task& task : schedule.tasks) {
    if (task.op == OpKind::kAttention) routed_layers.insert(task.layer);
  }
  const int task_count = static_cast<int>(schedule.tasks.size());
  int last_task = 0;
  for (size_t i = 0; i < ring.chunks.size(); ++i) {
    const RingChunk& chunk = ring.chunks[i];
    const auto error = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat(ring.name, " chunk ", i, ": ", what...));
    };
    if (chunk.bytes == 0 || int64_t{chunk.bytes} > ring.slot_bytes)
      return error("wanted 1 to ", ring.slot_bytes, " bytes, found ", chunk.bytes);
    if (chunk.task < last_task || chunk.task >= task_count)
      return error("wanted a task from ", last_task, " to ", task_count - 1, ", found ",
                   chunk.task);
    last_task = chunk.task;
    const Task& task = schedule.tasks[chunk.task];
    if (!Takes(schedule, ring, task.op)) return error("no role takes it for ", OpName(task.op));
    if (IsRouted(task.op) && !routed_layers.contains(task.layer))
      return error("nothing routes layer ", task.layer, " of its ", OpName(task.op));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRing(const RingSchedule& schedule, const RingShape& ring) {
  BATON_RETURN_IF_ERROR(CheckChunks(
      schedule, {"weights", schedule.weights, ring.weight_slots, ring.weight_slot_bytes}));
  if (ring.in_flight_chunks < 1 || ring.in_flight_chunks > ring.weight_slots) {
    return absl::InvalidArgumentError(absl::StrCat("ring of weights: wanted 1 to ",
                                                   ring.weight_slots, " chunks in flight, found ",
                                                   ring.in_flight_chunks));
  }
  return CheckChunks(schedule, {"kv", schedule.kv, ring.kv_slots, ring.kv_slot_bytes});
}

absl::Status CheckEveryRing(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                            const RingShape& ring) {
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    const absl::Status status =
        CheckRing(RingSchedule::Of(config, graph, worker, load, ring), ring);
    if (!status.ok())
      return absl::InvalidArgumentError(absl::StrCat("worker ", worker, ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckRings(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                        const RingShape& ring) {
  BATON_RETURN_IF_ERROR(HappensBefore::Of(graph, ListOrder::kByRole).status());
  return CheckEveryRing(config, graph, load, ring);
}

}  // namespace baton
