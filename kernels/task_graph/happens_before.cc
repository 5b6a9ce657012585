#include "kernels/task_graph/happens_before.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {

using Clock = std::vector<uint16_t>;

// Walks all strands as far as their waits allow. A counter that reached its threshold has all its
// signals, as thresholds equal producers, so that its clock is final when it is read.
class OrderWalker {
 public:
  OrderWalker(const TaskGraph& graph, ListOrder order) : graph_(graph) {
    result_.order_ = order;
    result_.role_count_ = order == ListOrder::kByRole ? kRoleCount : 1;
    const int strands = graph.worker_count() * result_.role_count_;
    counters_.assign(graph.counter_count(), {0, Clock(strands, 0)});
    strands_.assign(strands, {{}, 0, Clock(strands, 0)});
    for (int worker = 0; worker < graph.worker_count(); ++worker) {
      result_.parts_.push_back(PartsOf(graph, worker, order));
      const int part_count = static_cast<int>(result_.parts_[worker].size());
      result_.clocks_.emplace_back(part_count);
      result_.turns_.emplace_back(part_count);
      for (int index = 0; index < part_count; ++index) {
        std::vector<int>& parts = strands_[result_.StrandOf({worker, index})].parts;
        result_.turns_[worker][index] = static_cast<uint16_t>(parts.size());
        parts.push_back(index);
      }
    }
  }

  absl::StatusOr<HappensBefore> Walk() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < strands_.size(); ++i) {
        const int worker = static_cast<int>(i) / result_.role_count_;
        while (!strands_[i].done() && Ready({worker, strands_[i].next_part()})) {
          Run({worker, strands_[i].next_part()});
          moved = true;
        }
      }
    }
    for (size_t i = 0; i < strands_.size(); ++i) {
      if (strands_[i].done()) continue;
      const int worker = static_cast<int>(i) / result_.role_count_;
      const TaskPart& part = result_.parts_[worker][strands_[i].next_part()];
      return absl::InvalidArgumentError(absl::StrCat(
          "worker ", worker, ": waits for ever in ",
          TaskDebugString(graph_.tasks(worker)[part.task], graph_.shape().layer_count())));
    }
    return std::move(result_);
  }

 private:
  // A counter while the graph is walked: signals so far, and what they together know.
  struct CounterState {
    uint32_t signals = 0;
    Clock clock;
  };
  struct Strand {
    std::vector<int> parts;
    size_t next = 0;
    Clock now;
    bool done() const { return next == parts.size(); }
    int next_part() const { return parts[next]; }
  };

  static void Join(Clock& clock, const Clock& other) {
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }
  bool Started(int worker, int part) const { return !result_.clocks_[worker][part].empty(); }

  // What is waited for has been walked; a part that has been walked has ended, but for `beside`.
  bool Ready(PartRef at) const {
    const TaskPart& part = result_.parts_[at.worker][at.index];
    for (const TaskWait& wait : part.waits) {
      if (counters_[wait.counter].signals < wait.producers) return false;
    }
    return (part.after < 0 || Started(at.worker, part.after)) &&
           (part.behind < 0 || Started(at.worker, part.behind)) &&
           (part.beside < 0 || Started(at.worker, part.beside));
  }

  // What is known at the end of a part that is beside none.
  void JoinEnd(Clock& clock, PartRef part) const {
    Join(clock, result_.clocks_[part.worker][part.index]);
    uint16_t& own = clock[result_.StrandOf(part)];
    own = std::max<uint16_t>(own, result_.turns_[part.worker][part.index] + 1);
  }

  // Tasks after the last layer are at it still.
  int LayerOf(PartRef at) const {
    const int layer = graph_.tasks(at.worker)[result_.parts_[at.worker][at.index].task].layer;
    return std::min(layer, graph_.shape().layer_count() - 1);
  }
  // The role's warps go through the list each by itself and meet at every layer.
  bool Apart(PartRef at) const {
    return result_.order_ == ListOrder::kByRole &&
           result_.parts_[at.worker][at.index].role == Role::kMultiply;
  }
  bool EntersLayer(const Strand& strand, PartRef at) const {
    return strand.next > 0 && LayerOf({at.worker, strand.parts[strand.next - 1]}) < LayerOf(at);
  }

  void Run(PartRef at) {
    const TaskPart& part = result_.parts_[at.worker][at.index];
    Strand& strand = strands_[result_.StrandOf(at)];
    uint16_t& ended = strand.now[result_.StrandOf(at)];
    if (EntersLayer(strand, at)) ended = static_cast<uint16_t>(strand.next);
    for (const TaskWait& wait : part.waits) Join(strand.now, counters_[wait.counter].clock);
    if (part.after >= 0) JoinEnd(strand.now, {at.worker, part.after});
    if (part.beside >= 0) Join(strand.now, result_.clocks_[at.worker][part.beside]);
    result_.clocks_[at.worker][at.index] = strand.now;
    if (part.beside >= 0) JoinEnd(strand.now, {at.worker, part.beside});
    ++strand.next;
    if (!Apart(at)) ended = static_cast<uint16_t>(strand.next);
    if (part.signal == kNoCounter) return;
    Join(counters_[part.signal].clock, strand.now);
    ++counters_[part.signal].signals;
  }

  const TaskGraph& graph_;
  HappensBefore result_;
  std::vector<CounterState> counters_;
  std::vector<Strand> strands_;
};

absl::StatusOr<HappensBefore> HappensBefore::Of(const TaskGraph& graph, ListOrder order) {
  return OrderWalker(graph, order).Walk();
}

}  // namespace baton
