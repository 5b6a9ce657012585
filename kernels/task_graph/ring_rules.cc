#include "kernels/task_graph/ring_rules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr int kNoTask = std::numeric_limits<int>::max();
constexpr int kRoutedQueue = static_cast<int>(ChunkQueue::kRouted);
constexpr int kKvQueue = static_cast<int>(ChunkQueue::kKv);

using QueueCounts = std::array<int, kChunkQueueCount>;

// Chunks taken by the two roles, and of each queue those in slots: a prefix of its order beyond
// what was taken.
struct RingState {
  int weights = 0;
  int pages = 0;
  QueueCounts held = {};
};

// A layer's chunks. The roles meet at its ends: neither takes a chunk of the next layer before both
// have taken all of this one.
struct LayerWindow {
  int layer = 0;
  int weights_begin = 0, weights_end = 0;
  int pages_begin = 0, pages_end = 0;
  int listed_from = 0;   // Weights taken when this worker's part of the routing is done,
  int queries_from = 0;  // and its part of what its attention waits for.
};

// What can follow a window, by what the window looks like; shared between the workers of a graph.
using KnownWindows = std::map<std::vector<int>, std::set<QueueCounts>>;

class RingWalker {
 public:
  RingWalker(const RingSchedule& schedule, const RingShape& ring, KnownWindows& known_windows)
      : schedule_(schedule), ring_(ring), known_windows_(known_windows) {
    taken_.push_back({});
    for (size_t i = 0; i < schedule.chunks().size(); ++i) {
      const int q = static_cast<int>(schedule.chunks()[i].queue);
      order_[q].push_back(static_cast<int>(i));
      if (q == kKvQueue) continue;
      weights_.push_back(static_cast<int>(i));
      taken_.push_back(taken_.back());
      ++taken_.back()[q];
    }
    FindWindows();
  }

  absl::Status Walk() {
    std::set<QueueCounts> begins = {{}};
    for (const LayerWindow& window : windows_) {
      window_ = &window;
      std::vector<int> look = LookOf(window, begins);
      const auto known = known_windows_.find(look);
      if (known != known_windows_.end()) {
        begins = known->second;
        continue;
      }
      BATON_RETURN_IF_ERROR(WalkWindow(begins));
      begins = std::move(ends_);
      known_windows_[std::move(look)] = begins;
    }
    return absl::OkStatus();
  }

 private:
  const Task& TaskOf(int chunk) const { return schedule_.tasks()[schedule_.chunks()[chunk].task]; }

  void FindWindows() {
    const auto pages_end = [&](int from, int layer) {
      const std::vector<int>& pages = order_[kKvQueue];
      while (from < static_cast<int>(pages.size()) && TaskOf(pages[from]).layer == layer) ++from;
      return from;
    };
    LayerWindow window;
    for (const int last = schedule_.tasks().empty() ? -1 : schedule_.tasks().back().layer;
         window.layer <= last; ++window.layer) {
      window.weights_begin = window.listed_from = window.queries_from = window.weights_end;
      window.pages_begin = window.pages_end;
      int& end = window.weights_end;
      while (end < static_cast<int>(weights_.size()) &&
             TaskOf(weights_[end]).layer == window.layer) {
        const OpKind op = TaskOf(weights_[end++]).op;
        if (op == OpKind::kRouter) window.listed_from = end;
        if (op == OpKind::kRouter || op == OpKind::kQkvRope) window.queries_from = end;
      }
      window.pages_end = pages_end(window.pages_begin, window.layer);
      windows_.push_back(window);
    }
  }

  // All that a walk of the window depends on: its chunks and those behind it that slots may hold,
  // and what they hold at its beginning.
  std::vector<int> LookOf(const LayerWindow& window, const std::set<QueueCounts>& begins) const {
    std::vector<int> look;
    for (const QueueCounts& held : begins) look.insert(look.end(), held.begin(), held.end());
    int first_task = kNoTask;
    for (int q = 0; q < kChunkQueueCount; ++q) {
      const int begin = TakenAt(q, window.weights_begin, window.pages_begin);
      if (begin < static_cast<int>(order_[q].size()))
        first_task = std::min(first_task, schedule_.chunks()[order_[q][begin]].task);
    }
    for (int q = 0; q < kChunkQueueCount; ++q) {
      const int begin = TakenAt(q, window.weights_begin, window.pages_begin);
      const int end = TakenAt(q, window.weights_end, window.pages_end) + ring_.slot_count + 1;
      look.push_back(-1 - q);
      for (int i = begin; i < std::min<int>(end, order_[q].size()); ++i) {
        const Task& task = TaskOf(order_[q][i]);
        look.push_back(schedule_.chunks()[order_[q][i]].task - first_task);
        look.push_back((task.layer - window.layer) * kOpCount + static_cast<int>(task.op));
      }
      look.push_back(TakenAt(q, window.weights_end, window.pages_end) - begin);
    }
    return look;
  }

  int TakenAt(int q, int weights, int pages) const {
    return q == kKvQueue ? pages : taken_[weights][q];
  }

  absl::Status WalkWindow(const std::set<QueueCounts>& begins) {
    ends_.clear();
    side_ = ring_.slot_count + 1;
    visited_.assign(size_t(window_->weights_end - window_->weights_begin + 1) *
                        (window_->pages_end - window_->pages_begin + 1) * side_ * side_ * side_,
                    false);
    for (const QueueCounts& held : begins)
      Visit({window_->weights_begin, window_->pages_begin, held});
    while (!open_.empty()) {
      const RingState state = open_.back();
      open_.pop_back();
      if (!Move(state)) return Stuck(state);
    }
    return absl::OkStatus();
  }

  // Every state one move on; false if there is none though chunks of the window are left.
  bool Move(const RingState& state) {
    if (state.weights == window_->weights_end && state.pages == window_->pages_end) {
      ends_.insert(state.held);
      return true;
    }
    bool moved = false;
    if (state.weights < window_->weights_end) {
      const int chunk = weights_[state.weights];
      const int q = static_cast<int>(schedule_.chunks()[chunk].queue);
      const OpKind op = TaskOf(chunk).op;
      const bool merged = op == OpKind::kOutputProj || op == OpKind::kDown;
      if (state.held[q] > 0 && (!merged || state.pages == window_->pages_end)) {
        RingState next = state;
        ++next.weights;
        --next.held[q];
        Visit(next);
        moved = true;
      }
    }
    if (state.pages < window_->pages_end && state.held[kKvQueue] > 0 &&
        state.weights >= window_->queries_from) {
      RingState next = state;
      ++next.pages;
      --next.held[kKvQueue];
      Visit(next);
      moved = true;
    }
    return MoveLoader(state) || moved;
  }

  // The loader at one moment: each queue's next chunk, -1 at its end.
  struct Outlook {
    std::array<int, kChunkQueueCount> chunk;
    std::array<bool, kChunkQueueCount> known;
  };

  // Whatever of the known looks known. What counts as a move is what happens when all of it does.
  bool MoveLoader(const RingState& state) {
    Outlook all;
    for (int q = 0; q < kChunkQueueCount; ++q) {
      const int next = TakenAt(q, state.weights, state.pages) + state.held[q];
      all.chunk[q] = next < static_cast<int>(order_[q].size()) ? order_[q][next] : -1;
      all.known[q] = all.chunk[q] >= 0 && (q != kRoutedQueue || IsListed(all.chunk[q], state));
    }
    bool moved = false;
    for (int look = 1; look < 1 << kChunkQueueCount; ++look) {
      Outlook some = all;
      for (int q = 0; q < kChunkQueueCount; ++q) some.known[q] &= (look >> q & 1) != 0;
      const int q = Choice(state, some);
      if (q < 0) continue;
      RingState next = state;
      ++next.held[q];
      Visit(next);
      moved |= some.known == all.known;
    }
    return moved;
  }

  bool IsListed(int chunk, const RingState& state) const {
    return TaskOf(chunk).layer == window_->layer && state.weights >= window_->listed_from;
  }

  // The queue whose chunk goes next; -1: none does.
  int Choice(const RingState& state, const Outlook& outlook) const {
    const bool experts =
        outlook.known[kRoutedQueue] && TaskOf(outlook.chunk[kRoutedQueue]).op == OpKind::kGateUp;
    int first_task = kNoTask, ready_task = kNoTask, choice = -1, free = ring_.slot_count;
    for (int q = 0; q < kChunkQueueCount; ++q) {
      free -= state.held[q];
      if (outlook.chunk[q] < 0) continue;
      if (q == kKvQueue && experts && state.held[q] >= ring_.most_kv) continue;
      const int task = schedule_.chunks()[outlook.chunk[q]].task;
      first_task = std::min(first_task, task);
      if (!outlook.known[q] || task >= ready_task) continue;
      ready_task = task;
      choice = q;
    }
    return free > (ready_task == first_task ? 0 : ring_.reserve) ? choice : -1;
  }

  void Visit(const RingState& state) {
    size_t index = size_t(state.weights - window_->weights_begin) *
                       (window_->pages_end - window_->pages_begin + 1) +
                   (state.pages - window_->pages_begin);
    for (int held : state.held) index = index * side_ + held;
    if (visited_[index]) return;
    visited_[index] = true;
    open_.push_back(state);
  }

  absl::Status Stuck(const RingState& state) const {
    const bool weights = state.weights < window_->weights_end;
    const int chunk = weights ? weights_[state.weights] : order_[kKvQueue][state.pages];
    return absl::InvalidArgumentError(absl::StrCat(
        "the ring stops for ever before chunk ", chunk, " (", OpName(TaskOf(chunk).op), ", layer ",
        TaskOf(chunk).layer, "): ", ring_.slot_count, " slots hold ", state.held[0], " static, ",
        state.held[1], " routed and ", state.held[2], " chunks of pages"));
  }

  const RingSchedule& schedule_;
  const RingShape ring_;
  KnownWindows& known_windows_;
  std::array<std::vector<int>, kChunkQueueCount> order_;  // Chunks of each queue.
  std::vector<int> weights_;                              // Chunks that are no pages.
  std::vector<QueueCounts> taken_;  // [weights taken]: how many of them were of each queue.
  std::vector<LayerWindow> windows_;
  // Of the window that is walked.
  const LayerWindow* window_ = nullptr;
  size_t side_ = 0;
  std::vector<bool> visited_;
  std::vector<RingState> open_;
  std::set<QueueCounts> ends_;
};

absl::Status CheckChunks(const RingSchedule& schedule, const RingShape& ring) {
  int last_task = 0, last_layer = 0;
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
    const int layer = schedule.tasks()[chunk.task].layer;
    if (layer < last_layer || layer > schedule.tasks().back().layer) {
      return absl::InvalidArgumentError(absl::StrCat("ring chunk ", i, ": wanted a layer from ",
                                                     last_layer, " on, found ", layer));
    }
    last_task = chunk.task;
    last_layer = layer;
  }
  return absl::OkStatus();
}

absl::Status CheckOne(const RingSchedule& schedule, const RingShape& ring,
                      KnownWindows& known_windows) {
  if (ring.slot_count < 1 || ring.reserve < 0 || ring.most_kv < 0) {
    return absl::InvalidArgumentError(absl::StrCat("ring: wanted slots, found ", ring.slot_count));
  }
  BATON_RETURN_IF_ERROR(CheckChunks(schedule, ring));
  return RingWalker(schedule, ring, known_windows).Walk();
}

}  // namespace

absl::Status CheckRing(const RingSchedule& schedule, const RingShape& ring) {
  KnownWindows known_windows;
  return CheckOne(schedule, ring, known_windows);
}

absl::Status CheckRings(const ModelConfig& config, const TaskGraph& graph, const StepLoad& load,
                        const RingShape& ring) {
  KnownWindows known_windows;
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    const RingSchedule schedule = RingSchedule::Of(config, graph, worker, load, ring.slot_bytes);
    const absl::Status status = CheckOne(schedule, ring, known_windows);
    if (!status.ok())
      return absl::InvalidArgumentError(absl::StrCat("worker ", worker, ": ", status.message()));
  }
  return absl::OkStatus();
}

}  // namespace baton
