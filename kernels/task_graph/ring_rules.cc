#include "kernels/task_graph/ring_rules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr int kGroups = 2;  // Of consumers: all but attention's, attention's.
constexpr int kNone = std::numeric_limits<int>::max();

// Chunks taken by each group: a prefix of its order each. As a requirement: at least so many.
using Taken = std::array<int, kGroups>;

void Raise(Taken& taken, const Taken& other) {
  for (int group = 0; group < kGroups; ++group) {
    taken[group] = std::max(taken[group], other[group]);
  }
}

bool Reached(const Taken& taken, const Taken& wanted) {
  return taken[0] >= wanted[0] && taken[1] >= wanted[1];
}

// What a worker itself must have done before a chunk can be taken or a layer's routing known.
class Requirements {
 public:
  Requirements(const RingSchedule& schedule, bool kv_apart)
      : schedule_(schedule), kv_apart_(kv_apart) {
    for (const RingChunk& chunk : schedule.chunks()) {
      ++count_[GroupOf(schedule.tasks()[chunk.task])];
      for (int group = 0; group < kGroups; ++group)
        ends_[group].push_back({chunk.task, count_[group]});
    }
    const std::vector<Task>& tasks = schedule.tasks();
    Taken running[kGroups] = {};
    for (size_t i = 0; i < tasks.size(); ++i) {
      const int group = GroupOf(tasks[i]);
      for (const TaskWait& wait : tasks[i].waits) {
        if (wait.counter != kNoCounter) Raise(running[group], DoneOf(wait.counter));
      }
      // Attention's group works out the routing first.
      if (kv_apart && tasks[i].op == OpKind::kAttention)
        Raise(running[group], Routing(tasks[i].layer));
      to_take_.push_back(running[group]);
    }
  }

  int GroupOf(const Task& task) const {
    const bool attention = task.op == OpKind::kAttention || task.op == OpKind::kAttentionMerge;
    return kv_apart_ && attention ? 1 : 0;
  }
  const Taken& ToTake(int task) const { return to_take_[task]; }

  // Chunks taken once this worker has done its part for the layer's routing.
  Taken Routing(int layer) const {
    Taken wanted = {};
    const std::vector<Task>& tasks = schedule_.tasks();
    for (size_t i = 0; i < tasks.size(); ++i) {
      const bool part = (tasks[i].op == OpKind::kRouter && tasks[i].layer == layer) ||
                        (tasks[i].op == OpKind::kDown && tasks[i].layer + 1 == layer) ||
                        (tasks[i].op == OpKind::kEmbed && layer == 0);
      const bool attended = kv_apart_ && GroupOf(tasks[i]) == 1 && tasks[i].layer < layer;
      if (part || attended) Raise(wanted, Done(static_cast<int>(i)));
    }
    return wanted;
  }

 private:
  // Chunks taken once a task, with all before it in its group, has been done.
  Taken Done(int task) const {
    Taken done = task < static_cast<int>(to_take_.size()) ? to_take_[task] : Taken{};
    const int group = GroupOf(schedule_.tasks()[task]);
    const auto& ends = ends_[group];
    const auto after = std::upper_bound(
        ends.begin(), ends.end(), task,
        [](int wanted, const std::pair<int, int>& end) { return wanted < end.first; });
    if (after != ends.begin()) done[group] = std::max(done[group], std::prev(after)->second);
    return done;
  }
  // The same of this worker's signals of a counter.
  Taken DoneOf(uint16_t counter) const {
    Taken done = {};
    for (size_t i = 0; i < schedule_.tasks().size(); ++i) {
      if (schedule_.tasks()[i].signal == counter) Raise(done, Done(static_cast<int>(i)));
    }
    return done;
  }

  const RingSchedule& schedule_;
  const bool kv_apart_;
  Taken count_ = {};
  std::vector<std::pair<int, int>> ends_[kGroups];  // Task of a chunk, the group's chunks up to it.
  std::vector<Taken> to_take_;                      // [task]
};

// Chunks issued of each queue and taken by each group.
struct RingState {
  std::array<int, kChunkQueues> issued = {};
  Taken taken = {};
};

class RingWalker {
 public:
  RingWalker(const RingSchedule& schedule, const RingShape& ring)
      : schedule_(schedule), ring_(ring), needs_(schedule, ring.kv_apart) {
    for (auto& counts : taken_of_) counts.push_back({});
    for (size_t i = 0; i < schedule.chunks().size(); ++i) {
      const RingChunk& chunk = schedule.chunks()[i];
      const int q = static_cast<int>(chunk.queue), group = needs_.GroupOf(TaskOf(chunk));
      queue_[q].push_back(static_cast<int>(i));
      order_[group].push_back(static_cast<int>(i));
      taken_of_[group].push_back(taken_of_[group].back());
      ++taken_of_[group].back()[q];
    }
    int layers = 0;
    for (const Task& task : schedule.tasks()) layers = std::max(layers, task.layer + 1);
    for (int layer = 0; layer < layers; ++layer) routing_.push_back(needs_.Routing(layer));
  }

  absl::Status Walk() {
    Visit({});
    while (!open_.empty()) {
      const RingState state = open_.back();
      open_.pop_back();
      const bool taking = Take(state);
      if (!Issue(state) && !taking && !AtEnd(state)) return Stuck(state);
    }
    return absl::OkStatus();
  }

 private:
  const Task& TaskOf(const RingChunk& chunk) const { return schedule_.tasks()[chunk.task]; }
  bool AtEnd(const RingState& state) const {
    return state.taken[0] == static_cast<int>(order_[0].size()) &&
           state.taken[1] == static_cast<int>(order_[1].size());
  }
  // Of queue q: issued and not taken.
  int Held(const RingState& state, int q) const {
    return state.issued[q] - taken_of_[0][state.taken[0]][q] - taken_of_[1][state.taken[1]][q];
  }

  // Visits what each group's next chunk leads to; false if neither can take one.
  bool Take(const RingState& state) {
    bool moved = false;
    for (int group = 0; group < kGroups; ++group) {
      if (state.taken[group] == static_cast<int>(order_[group].size())) continue;
      const RingChunk& chunk = schedule_.chunks()[order_[group][state.taken[group]]];
      const int q = static_cast<int>(chunk.queue);
      const int taken = taken_of_[group][state.taken[group]][q];  // A queue belongs to one group.
      if (state.issued[q] <= taken || !Reached(state.taken, needs_.ToTake(chunk.task))) continue;
      RingState next = state;
      ++next.taken[group];
      Visit(next);
      moved = true;
    }
    return moved;
  }

  // Visits what the loader may issue, whichever known chunks it sees; false if it issues none when
  // it sees all of them.
  bool Issue(const RingState& state) {
    int known = 0;
    std::array<int, kChunkQueues> next;
    for (int q = 0; q < kChunkQueues; ++q) {
      const bool left = state.issued[q] < static_cast<int>(queue_[q].size());
      next[q] = left ? queue_[q][state.issued[q]] : kNone;
      if (left && IsKnown(schedule_.chunks()[next[q]], state)) known |= 1 << q;
    }
    for (int seen = known; seen > 0; seen = (seen - 1) & known) {
      const int q = Choice(state, next, seen);
      if (q >= 0) {
        RingState after = state;
        ++after.issued[q];
        Visit(after);
      }
      if (seen == known && q >= 0) moved_with_all_ = true;
    }
    return std::exchange(moved_with_all_, false);
  }

  bool IsKnown(const RingChunk& chunk, const RingState& state) const {
    return chunk.queue != ChunkQueue::kRouted ||
           Reached(state.taken, routing_[TaskOf(chunk).layer]);
  }

  // The queue that the loader issues from when it sees the chunks `seen` of `next`; -1: none.
  int Choice(const RingState& state, const std::array<int, kChunkQueues>& next, int seen) const {
    constexpr int kRouted = static_cast<int>(ChunkQueue::kRouted);
    constexpr int kKv = static_cast<int>(ChunkQueue::kKv);
    const bool experts =
        seen >> kRouted & 1 && TaskOf(schedule_.chunks()[next[kRouted]]).op == OpKind::kGateUp;
    const bool hold_kv = experts && Held(state, kKv) >= ring_.kv_limit;
    int first = kNone, first_seen = kNone, choice = -1, free = ring_.slot_count;
    for (int q = 0; q < kChunkQueues; ++q) {
      free -= Held(state, q);
      if (next[q] == kNone || (q == kKv && hold_kv)) continue;
      const int task = schedule_.chunks()[next[q]].task;
      first = std::min(first, task);
      if (!(seen >> q & 1) || task >= first_seen) continue;
      first_seen = task;
      choice = q;
    }
    const int wanted = first_seen == first ? 1 : ring_.reserve + 1;
    return choice >= 0 && free >= wanted ? choice : -1;
  }

  void Visit(const RingState& state) {
    uint64_t key = static_cast<uint64_t>(state.taken[0]) << 24 | state.taken[1];
    for (int q = 0; q < kChunkQueues; ++q) key = key << 6 | static_cast<uint64_t>(Held(state, q));
    if (seen_.insert(key).second) open_.push_back(state);
  }

  absl::Status Stuck(const RingState& state) const {
    std::string waiting;
    for (int group = 0; group < kGroups; ++group) {
      if (state.taken[group] == static_cast<int>(order_[group].size())) continue;
      const Task& task = TaskOf(schedule_.chunks()[order_[group][state.taken[group]]]);
      absl::StrAppend(&waiting, waiting.empty() ? "" : " and ", OpName(task.op), ", layer ",
                      task.layer);
    }
    return absl::InvalidArgumentError(absl::StrCat("the ring stops for ever before ", waiting, ": ",
                                                   ring_.slot_count, " slots hold ", Held(state, 0),
                                                   " static, ", Held(state, 1), " routed and ",
                                                   Held(state, 2), " K/V chunks"));
  }

  const RingSchedule& schedule_;
  const RingShape ring_;
  const Requirements needs_;
  std::vector<int> queue_[kChunkQueues];  // Chunks of each queue.
  std::vector<int> order_[kGroups];       // Chunks of each group.
  // [group][taken]: how many of them were of each queue.
  std::vector<std::array<int, kChunkQueues>> taken_of_[kGroups];
  std::vector<Taken> routing_;  // [layer]
  bool moved_with_all_ = false;
  std::unordered_set<uint64_t> seen_;
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
    if (!ring.kv_apart && chunk.queue == ChunkQueue::kKv) {
      return absl::InvalidArgumentError(
          absl::StrCat("ring chunk ", i, ": wanted no queue of K/V pages, found one"));
    }
    last_task = chunk.task;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRing(const RingSchedule& schedule, const RingShape& ring) {
  if (ring.slot_count < 1 || ring.slot_count >= 64 || ring.reserve < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ring: wanted 1 to 63 slots, found ", ring.slot_count));
  }
  BATON_RETURN_IF_ERROR(CheckChunks(schedule, ring));
  return RingWalker(schedule, ring).Walk();
}

absl::Status CheckRings(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                        const RingShape& ring) {
  std::set<std::vector<int>> checked;  // Workers of the same chunk order behave alike.
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    const RingSchedule schedule = RingSchedule::Of(config, graph, worker, load, ring);
    std::vector<int> kind;
    for (const RingChunk& chunk : schedule.chunks()) {
      const Task& task = schedule.tasks()[chunk.task];
      kind.push_back((task.layer * kOpCount + static_cast<int>(task.op)) * 4 + task.part);
    }
    // Which parts of a layer's routing and x it has, chunks or not.
    for (const Task& task : schedule.tasks()) {
      kind.push_back(-static_cast<int>(task.op) - kOpCount * (task.signal != kNoCounter));
    }
    if (!checked.insert(std::move(kind)).second) continue;
    const absl::Status status = CheckRing(schedule, ring);
    if (!status.ok())
      return absl::InvalidArgumentError(absl::StrCat("worker ", worker, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace baton
