#include "kernels/task_graph/step_simulator.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr double kUnknown = -1;  // A time that is not settled yet.

// Signals of one counter so far, and when the last of them came.
struct CounterState {
  int signals = 0;
  double time_us = 0;
};

// What all workers share.
struct World {
  const DeviceConstants& device;
  const RingShape& ring;
  const int layer_count;
  const int row_tiles;
  const double worker_bytes_per_us;
  std::vector<uint16_t> producers;
  std::vector<CounterState> counters;
  std::vector<bool> sparse;  // [layer]

  // When a waiter sees the counter complete; kUnknown while signals are missing.
  double ReadyAt(uint16_t counter) const {
    const CounterState& state = counters[counter];
    return state.signals < producers[counter] ? kUnknown : state.time_us + device.hop_us;
  }
  // When the layer's list of active experts is there.
  double RoutedAt(int layer) const {
    const CounterKind kind = sparse[layer] ? CounterKind::kRouter : CounterKind::kX;
    const double ready = ReadyAt(CounterId(kind, layer, layer_count));
    return ready == kUnknown ? kUnknown : ready + device.routing_us;
  }
};

// One worker: a loader that issues chunks and consumers that take them, each with a time of its
// own.
class WorkerSimulation {
 public:
  WorkerSimulation(World& world, RingSchedule schedule)
      : world_(world), schedule_(std::move(schedule)), free_(world.ring.slot_count) {
    for (size_t i = 0; i < schedule_.chunks().size(); ++i) {
      order_[static_cast<int>(schedule_.chunks()[i].queue)].push_back(static_cast<int>(i));
    }
    loaded_us_.assign(schedule_.chunks().size(), kUnknown);
  }

  bool done() const { return task_ == static_cast<int>(schedule_.tasks().size()); }
  double end_us() const { return now_us_; }
  int task() const { return task_; }
  const std::vector<Task>& tasks() const { return schedule_.tasks(); }
  uint64_t bytes() const { return schedule_.bytes(); }
  double busy_us() const { return busy_us_; }
  double memory_us() const { return memory_us_; }
  double routing_us() const { return routing_us_; }
  double join_us() const { return join_us_; }
  double other_us() const { return other_us_; }

  // Goes on as far as the counters' known times allow; false if it could not move.
  bool Advance() {
    bool moved = false;
    while (!done() && (Consume() || Issue())) moved = true;
    return moved;
  }

 private:
  // --- Consumers.
  bool Consume() {
    const Task& task = schedule_.tasks()[task_];
    if (!started_ && !StartTask(task)) return false;
    if (chunk_ < static_cast<int>(schedule_.chunks().size()) &&
        schedule_.chunks()[chunk_].task == task_) {
      return TakeChunk();
    }
    EndTask(task);
    return true;
  }

  bool StartTask(const Task& task) {
    double ready = now_us_;
    for (const TaskWait& wait : task.waits) {
      if (wait.counter == kNoCounter) continue;
      const double at = world_.ReadyAt(wait.counter);
      if (at == kUnknown) return false;
      ready = std::max(ready, at);
    }
    const bool join =
        task.op == OpKind::kRouter || task.op == OpKind::kQkvRope || task.op == OpKind::kLmHead;
    (join ? join_us_ : other_us_) += ready - now_us_;
    now_us_ = ready;
    if (task.op == OpKind::kGateUp) {
      const double routed = world_.RoutedAt(task.layer);
      if (routed == kUnknown) return false;
      routing_us_ += std::max(0.0, routed - now_us_);
      now_us_ = std::max(now_us_, routed);
    }
    const bool reads_x = join || task.op == OpKind::kGateUp;
    if (reads_x && normalised_ != task.layer) {
      Work(world_.device.norm_us);
      normalised_ = task.layer;
    }
    started_ = true;
    return true;
  }

  bool TakeChunk() {
    const double loaded = loaded_us_[chunk_];
    if (loaded == kUnknown) return false;
    memory_us_ += std::max(0.0, loaded - now_us_);
    now_us_ = std::max(now_us_, loaded);
    Work(schedule_.chunks()[chunk_].bytes /
         world_.device.consume_bytes_per_us[world_.row_tiles - 1]);
    freed_us_.push_back(now_us_);
    ++chunk_;
    return true;
  }

  void EndTask(const Task& task) {
    Work(world_.device.task_us);
    if (task.signal != kNoCounter) {
      Work(world_.device.publish_us);
      CounterState& counter = world_.counters[task.signal];
      ++counter.signals;
      counter.time_us = std::max(counter.time_us, now_us_);
    }
    ++task_;
    started_ = false;
  }

  void Work(double us) {
    now_us_ += us;
    busy_us_ += us;
  }

  // --- Loader.
  // Slots that are free at the loader's time, as far as the consumers have come.
  void Reclaim() {
    while (!freed_us_.empty() && freed_us_.front() <= issue_us_) {
      ++free_;
      freed_us_.pop_front();
    }
  }

  bool Issue() {
    Reclaim();
    int next[2], task[2];
    for (int q = 0; q < 2; ++q) {
      next[q] = issued_[q] < static_cast<int>(order_[q].size()) ? order_[q][issued_[q]] : -1;
      task[q] = next[q] < 0 ? std::numeric_limits<int>::max() : schedule_.chunks()[next[q]].task;
    }
    const int first = task[0] < task[1] ? 0 : 1, other = 1 - first;
    if (next[first] < 0) return false;
    const double known = KnownAt(next[first]);
    if (known != kUnknown && known <= issue_us_) {
      if (free_ > 0) return IssueChunk(first, next[first]);
      return WaitForSlot();
    }
    // The first is unknown for now: the other queue's may pass it.
    if (next[other] >= 0 && free_ > world_.ring.reserve) {
      const double other_known = KnownAt(next[other]);
      if (other_known != kUnknown && other_known <= issue_us_)
        return IssueChunk(other, next[other]);
    }
    return WaitFor(known, free_ <= world_.ring.reserve);
  }

  double KnownAt(int chunk) const {
    if (schedule_.chunks()[chunk].queue == ChunkQueue::kStatic) return 0;
    return world_.RoutedAt(schedule_.tasks()[schedule_.chunks()[chunk].task].layer);
  }

  bool WaitForSlot() {
    if (freed_us_.empty()) return false;
    issue_us_ = freed_us_.front();
    return true;
  }

  // Until `known`, or until a slot is free if that may help earlier.
  bool WaitFor(double known, bool slot_helps) {
    double until = known == kUnknown ? std::numeric_limits<double>::infinity() : known;
    if (slot_helps && !freed_us_.empty()) until = std::min(until, freed_us_.front());
    if (!(until < std::numeric_limits<double>::infinity()) || until <= issue_us_) return false;
    issue_us_ = until;
    return true;
  }

  bool IssueChunk(int queue, int chunk) {
    const double bytes = schedule_.chunks()[chunk].bytes;
    // Only so much is in flight.
    while (!flight_.empty() && (flight_.front().first <= issue_us_ ||
                                flight_bytes_ + bytes > world_.device.in_flight_bytes)) {
      issue_us_ = std::max(issue_us_, flight_.front().first);
      flight_bytes_ -= flight_.front().second;
      flight_.pop_front();
    }
    const double stream = bytes / world_.worker_bytes_per_us;
    stream_us_ = std::max(stream_us_ + stream, issue_us_ + world_.device.load_latency_us + stream);
    loaded_us_[chunk] = stream_us_;
    flight_.push_back({stream_us_, bytes});
    flight_bytes_ += bytes;
    ++issued_[queue];
    --free_;
    return true;
  }

  World& world_;
  const RingSchedule schedule_;
  // Consumers.
  double now_us_ = 0;
  int task_ = 0, chunk_ = 0, normalised_ = -1;
  bool started_ = false;
  double busy_us_ = 0, memory_us_ = 0, routing_us_ = 0, join_us_ = 0, other_us_ = 0;
  // Loader.
  double issue_us_ = 0, stream_us_ = 0;
  int free_;
  std::vector<int> order_[2];
  int issued_[2] = {0, 0};
  std::vector<double> loaded_us_;
  std::deque<double> freed_us_;                   // Slots that consumers gave back, by time.
  std::deque<std::pair<double, double>> flight_;  // Landing time, bytes.
  double flight_bytes_ = 0;
};

absl::Status Stopped(const std::vector<WorkerSimulation>& workers, int layer_count) {
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].done()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", i, " stops for ever in ",
                     TaskDebugString(workers[i].tasks()[workers[i].task()], layer_count)));
  }
  return absl::OkStatus();
}

StepPrediction Summary(const std::vector<WorkerSimulation>& workers, const World& world) {
  StepPrediction prediction;
  for (const WorkerSimulation& worker : workers) {
    prediction.step_us = std::max(prediction.step_us, worker.end_us());
    prediction.bytes += worker.bytes();
  }
  const double all = prediction.step_us * static_cast<double>(workers.size());
  for (const WorkerSimulation& worker : workers) {
    prediction.busy += worker.busy_us() / all;
    prediction.wait_memory += worker.memory_us() / all;
    prediction.wait_routing += worker.routing_us() / all;
    prediction.wait_join += worker.join_us() / all;
    prediction.wait_other += worker.other_us() / all;
  }
  prediction.step_us += world.device.launch_us;
  prediction.stream_us =
      static_cast<double>(prediction.bytes) / world.device.stream_bytes_per_second * 1e6;
  return prediction;
}

}  // namespace

absl::StatusOr<StepPrediction> PredictStep(const ModelConfig& config, const TaskGraph& graph,
                                           const StepLoad& load, const RingShape& ring,
                                           const DeviceConstants& device) {
  if (load.contexts.empty() || load.contexts.size() > 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows: wanted 1 to 32, found ", load.contexts.size()));
  }
  if (ring.kv_apart) {
    return absl::InvalidArgumentError("kv_apart: wanted one group of consumers, found two");
  }
  const int workers = graph.worker_count();
  World world{.device = device,
              .ring = ring,
              .layer_count = graph.shape().layer_count(),
              .row_tiles = static_cast<int>(load.contexts.size() + 7) / 8,
              .worker_bytes_per_us = device.stream_bytes_per_second * 1e-6 / workers,
              .producers = graph.ProducerCounts()};
  world.counters.resize(graph.counter_count());
  for (const LayerShape& layer : graph.shape().layers) world.sparse.push_back(layer.sparse);
  std::vector<WorkerSimulation> simulations;
  simulations.reserve(workers);
  for (int worker = 0; worker < workers; ++worker) {
    simulations.emplace_back(world, RingSchedule::Of(config, graph, worker, load, ring));
  }
  bool moved = true;
  while (moved) {
    moved = false;
    for (WorkerSimulation& simulation : simulations) moved |= simulation.Advance();
  }
  const absl::Status stopped = Stopped(simulations, world.layer_count);
  if (!stopped.ok()) return stopped;
  return Summary(simulations, world);
}

int ExpectedDistinctExperts(int rows, int chosen, int pool) {
  if (pool <= 0) return 0;
  const double missed = std::pow(1.0 - static_cast<double>(chosen) / pool, rows);
  return static_cast<int>(std::lround(pool * (1.0 - missed)));
}

}  // namespace baton
