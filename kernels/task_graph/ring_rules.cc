#include "kernels/task_graph/ring_rules.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

// Chunks issued of each queue and taken of both: a prefix of the order each.
struct RingState {
  int issued[2] = {0, 0};
  int taken = 0;
};

class RingWalker {
 public:
  RingWalker(const RingSchedule& schedule, const RingShape& ring)
      : schedule_(schedule), ring_(ring) {
    taken_before_[0].push_back(0);
    taken_before_[1].push_back(0);
    for (size_t i = 0; i < schedule.chunks().size(); ++i) {
      const int q = static_cast<int>(schedule.chunks()[i].queue);
      order_[q].push_back(static_cast<int>(i));
      for (int other = 0; other < 2; ++other) {
        taken_before_[other].push_back(taken_before_[other].back() + (other == q ? 1 : 0));
      }
    }
    FindRoutingTimes();
  }

  absl::Status Walk() {
    const size_t side = ring_.slot_count + 1;
    seen_.assign((schedule_.chunks().size() + 1) * side * side, false);
    Visit({});
    while (!open_.empty()) {
      const RingState state = open_.back();
      open_.pop_back();
      if (!Move(state)) return Stuck(state);
    }
    return absl::OkStatus();
  }

 private:
  // known_from_[layer]: chunks taken when this worker has done all it does for the layer's routing.
  void FindRoutingTimes() {
    const std::vector<Task>& tasks = schedule_.tasks();
    std::vector<int> last_task;
    for (size_t i = 0; i < tasks.size(); ++i) {
      int layer = -1;
      if (tasks[i].op == OpKind::kRouter || tasks[i].op == OpKind::kEmbed) layer = tasks[i].layer;
      if (tasks[i].op == OpKind::kDown) layer = tasks[i].layer + 1;
      if (layer < 0) continue;
      if (last_task.size() <= size_t(layer)) last_task.resize(layer + 1, -1);
      last_task[layer] = static_cast<int>(i);
    }
    for (int task : last_task) {
      const auto& chunks = schedule_.chunks();
      known_from_.push_back(static_cast<int>(
          std::find_if(chunks.begin(), chunks.end(),
                       [task](const RingChunk& chunk) { return chunk.task > task; }) -
          chunks.begin()));
    }
  }

  bool IsKnown(int chunk, int taken) const {
    if (schedule_.chunks()[chunk].queue == ChunkQueue::kStatic) return true;
    const size_t layer = schedule_.tasks()[schedule_.chunks()[chunk].task].layer;
    return layer >= known_from_.size() || taken >= known_from_[layer];
  }

  // Every state one move on; false if there is none though chunks are left. What may move is found
  // with everything known that can be known; a chunk may also look unknown for a while.
  bool Move(const RingState& state) {
    const int count = static_cast<int>(schedule_.chunks().size());
    if (state.taken == count) return true;
    bool moved = false;
    const int q = static_cast<int>(schedule_.chunks()[state.taken].queue);
    if (state.issued[q] > taken_before_[q][state.taken]) {
      RingState next = state;
      ++next.taken;
      Visit(next);
      moved = true;
    }
    const int free = ring_.slot_count - (state.issued[0] + state.issued[1] - state.taken);
    int next[2], task[2];
    for (int i = 0; i < 2; ++i) {
      const bool left = state.issued[i] < static_cast<int>(order_[i].size());
      next[i] = left ? order_[i][state.issued[i]] : -1;
      task[i] = left ? schedule_.chunks()[next[i]].task : std::numeric_limits<int>::max();
    }
    const int first = task[0] < task[1] ? 0 : 1;
    const int other = 1 - first;
    if (next[first] >= 0 && IsKnown(next[first], state.taken) && free > 0) {
      VisitIssue(state, first);
      moved = true;
    }
    if (next[other] >= 0 && IsKnown(next[other], state.taken) && free > ring_.reserve) {
      // Happens only while the first one is, or looks, unknown: no move to rely on if it is known.
      VisitIssue(state, other);
      if (next[first] < 0 || !IsKnown(next[first], state.taken)) moved = true;
    }
    return moved;
  }

  void VisitIssue(const RingState& state, int queue) {
    RingState next = state;
    ++next.issued[queue];
    Visit(next);
  }

  void Visit(const RingState& state) {
    const size_t side = ring_.slot_count + 1;
    const size_t ahead0 = state.issued[0] - taken_before_[0][state.taken];
    const size_t ahead1 = state.issued[1] - taken_before_[1][state.taken];
    const size_t index = (state.taken * side + ahead0) * side + ahead1;
    if (seen_[index]) return;
    seen_[index] = true;
    open_.push_back(state);
  }

  absl::Status Stuck(const RingState& state) const {
    const RingChunk& chunk = schedule_.chunks()[state.taken];
    const Task& task = schedule_.tasks()[chunk.task];
    return absl::InvalidArgumentError(
        absl::StrCat("the ring stops for ever before chunk ", state.taken, " (", OpName(task.op),
                     ", layer ", task.layer, "): ", ring_.slot_count, " slots hold ",
                     state.issued[0] - taken_before_[0][state.taken], " static and ",
                     state.issued[1] - taken_before_[1][state.taken], " routed chunks"));
  }

  const RingSchedule& schedule_;
  const RingShape ring_;
  std::vector<int> order_[2];         // Chunks of each queue.
  std::vector<int> taken_before_[2];  // [taken]: how many of them were of the queue.
  std::vector<int> known_from_;       // [layer]
  std::vector<bool> seen_;
  std::vector<RingState> open_;
};

absl::Status CheckChunks(const RingSchedule& schedule, const RingShape& ring) {
  int last_task = 0;
  for (size_t i = 0; i < schedule.chunks().size(); ++i) {
    const RingChunk& chunk = schedule.chunks()[i];
    if (chunk.bytes == 0 || chunk.bytes > static_cast<uint32_t>(ring.slot_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ring chunk ", i, ": wanted 1 to ", ring.slot_bytes, " bytes, found ", chunk.bytes));
    }
    if (chunk.task < last_task || chunk.task >= static_cast<int>(schedule.tasks().size())) {
      return absl::InvalidArgumentError(absl::StrCat("ring chunk ", i, ": wanted a task from ",
                                                     last_task, " on, found ", chunk.task));
    }
    last_task = chunk.task;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRing(const RingSchedule& schedule, const RingShape& ring) {
  if (ring.slot_count < 1 || ring.reserve < 0) {
    return absl::InvalidArgumentError(absl::StrCat("ring: wanted slots, found ", ring.slot_count));
  }
  BATON_RETURN_IF_ERROR(CheckChunks(schedule, ring));
  return RingWalker(schedule, ring).Walk();
}

absl::Status CheckRings(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                        const RingShape& ring) {
  std::set<std::vector<int>> checked;  // Workers of the same chunk order behave alike.
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    const RingSchedule schedule = RingSchedule::Of(config, graph, worker, load, ring.slot_bytes);
    std::vector<int> kind;
    for (const RingChunk& chunk : schedule.chunks()) {
      const Task& task = schedule.tasks()[chunk.task];
      kind.push_back((task.layer * kOpCount + static_cast<int>(task.op)) * 4 + task.part);
    }
    if (!checked.insert(std::move(kind)).second) continue;
    const absl::Status status = CheckRing(schedule, ring);
    if (!status.ok())
      return absl::InvalidArgumentError(absl::StrCat("worker ", worker, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace baton
