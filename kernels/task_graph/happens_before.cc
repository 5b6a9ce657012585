#include "kernels/task_graph/happens_before.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using Clock = std::vector<uint16_t>;

void Join(Clock& clock, const Clock& other) {
  for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

// A counter while the graph is walked: signals so far, and what they together know.
struct CounterState {
  uint32_t signals = 0;
  Clock clock;
};

}  // namespace

// Walks all lists as far as their waits allow. A counter that reached its threshold has all its
// signals, as thresholds equal producers, so that its clock is final when it is read.
absl::StatusOr<HappensBefore> HappensBefore::Of(const TaskGraph& graph) {
  const int worker_count = graph.worker_count();
  HappensBefore result;
  result.clocks_.resize(worker_count);
  std::vector<CounterState> counters(graph.counter_count(), {0, Clock(worker_count, 0)});
  std::vector<Clock> now(worker_count, Clock(worker_count, 0));
  const auto ready = [&](const Task& task) {
    for (const TaskWait& wait : task.waits) {
      if (wait.counter != kNoCounter && counters[wait.counter].signals < wait.producers) {
        return false;
      }
    }
    return true;
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (int worker = 0; worker < worker_count; ++worker) {
      const auto tasks = graph.tasks(worker);
      auto& clocks = result.clocks_[worker];
      while (clocks.size() < tasks.size() && ready(tasks[clocks.size()])) {
        const Task& task = tasks[clocks.size()];
        for (const TaskWait& wait : task.waits) {
          if (wait.counter != kNoCounter) Join(now[worker], counters[wait.counter].clock);
        }
        clocks.push_back(now[worker]);
        now[worker][worker] = static_cast<uint16_t>(clocks.size());
        if (task.signal != kNoCounter) {
          Join(counters[task.signal].clock, now[worker]);
          ++counters[task.signal].signals;
        }
        moved = true;
      }
    }
  }
  for (int worker = 0; worker < worker_count; ++worker) {
    const auto tasks = graph.tasks(worker);
    const size_t done = result.clocks_[worker].size();
    if (done == tasks.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", worker, ": waits for ever in ",
                     TaskDebugString(tasks[done], graph.shape().layer_count())));
  }
  return result;
}

}  // namespace baton
