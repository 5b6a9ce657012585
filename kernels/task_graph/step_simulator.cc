#include "kernels/task_graph/step_simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kRoutedQueue = static_cast<int>(ChunkQueue::kRouted);
constexpr int kKvQueue = static_cast<int>(ChunkQueue::kKv);

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
  const int rows;
  const int worker_count;
  const int query_heads;
  std::vector<uint16_t> producers;
  std::vector<CounterState> counters;
  std::vector<bool> sparse;  // [layer]
  double stream_us = 0;      // Until when memory is busy.
  // Times at which to look after a worker.
  using Wake = std::pair<double, int>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<Wake>> wakes;

  int row_tiles() const { return (rows + 7) / 8; }
  // x and the router's logits travel as packets; x of more than a row tile is waited for by
  // counter.
  bool IsPacket(uint16_t counter) const {
    const CounterKind kind = PlaceOfCounter(counter, layer_count).kind;
    return kind == CounterKind::kRouter || (kind == CounterKind::kX && row_tiles() == 1);
  }
  // When a waiter sees the counter complete.
  double ReadyAt(uint16_t counter) const {
    const CounterState& state = counters[counter];
    if (state.signals < producers[counter]) return kNever;
    return state.time_us + device.hop_us;
  }
  void Signal(uint16_t counter, double us) {
    CounterState& state = counters[counter];
    state.time_us = std::max(state.time_us, us);
    if (++state.signals < producers[counter]) return;
    for (int worker = 0; worker < worker_count; ++worker) wakes.push({ReadyAt(counter), worker});
  }
};

// One worker: the loader, and the roles with a time of their own each.
class WorkerSimulation {
 public:
  WorkerSimulation(World& world, int worker, RingSchedule schedule)
      : world_(world),
        worker_(worker),
        schedule_(std::move(schedule)),
        free_(world.ring.slot_count),
        listed_us_(world.layer_count, kNever),
        landed_us_(schedule_.chunks().size(), kNever) {
    for (size_t i = 0; i < schedule_.chunks().size(); ++i) {
      const int q = static_cast<int>(schedule_.chunks()[i].queue);
      order_[q].push_back(static_cast<int>(i));
      (q == kKvQueue ? attend_ : multiply_).chunks.push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < tasks().size(); ++i) {
      const OpKind op = tasks()[i].op;
      const bool attends = op == OpKind::kAttention || op == OpKind::kAttentionMerge;
      if (attends) attend_.tasks.push_back(static_cast<int>(i));
      if (!attends && op != OpKind::kEmbed && op != OpKind::kSample)
        multiply_.tasks.push_back(static_cast<int>(i));
    }
    if (!tasks().empty() && tasks()[0].op == OpKind::kEmbed) Finish(tasks()[0], 0);
  }

  bool done() const { return sampled_; }
  double end_us() const { return finish_us_; }
  // The task at which it is.
  int task() const {
    return !multiply_.done() ? multiply_.task() : !attend_.done() ? attend_.task() : last_task();
  }
  const std::vector<Task>& tasks() const { return schedule_.tasks(); }
  uint64_t bytes() const { return schedule_.bytes(); }
  double busy_us() const { return busy_us_; }
  double memory_us() const { return memory_us_; }
  double routing_us() const { return routing_us_; }
  double join_us() const { return join_us_; }
  double other_us() const { return other_us_; }

  // Does all that can be done at `now`.
  void Look(double now) {
    Land(now);
    while (Multiply(now) || Attend(now) || Sample(now) || Load(now)) {
    }
  }

 private:
  // Warps that walk their part of the list.
  struct RoleState {
    std::vector<int> tasks, chunks;
    size_t next_task = 0, next_chunk = 0;
    bool started = false, holds = false;
    double free_us = 0;  // Until when it works.
    bool done() const { return next_task == tasks.size(); }
    int task() const { return tasks[next_task]; }
  };

  int last_task() const { return static_cast<int>(tasks().size()) - 1; }
  int NextChunk(const RoleState& role) const {
    if (role.next_chunk == role.chunks.size()) return -1;
    const int chunk = role.chunks[role.next_chunk];
    return schedule_.chunks()[chunk].task == role.task() ? chunk : -1;
  }
  void Work(RoleState& role, double now, double us) {
    role.free_us = now + us;
    world_.wakes.push({role.free_us, worker_});
  }
  // Its chunk's slot is free again.
  bool Release(RoleState& role) {
    if (!role.holds) return false;
    role.holds = false;
    ++free_;
    --held_[static_cast<int>(schedule_.chunks()[role.chunks[role.next_chunk++]].queue)];
    return true;
  }
  double WaitsReadyAt(const Task& task) const {
    double at = 0;
    for (const TaskWait& wait : task.waits) {
      if (wait.counter != kNoCounter) at = std::max(at, world_.ReadyAt(wait.counter));
    }
    return at;
  }

  // --- The multiplying warps.
  bool Multiply(double now) {
    RoleState& role = multiply_;
    if (role.done() || role.free_us > now) return false;
    if (Release(role)) return true;
    const Task& task = tasks()[role.task()];
    if (!role.started) return StartProduct(task, now);
    const int chunk = NextChunk(role);
    if (chunk < 0) {
      Finish(task, now);
      ++role.next_task;
      role.started = false;
      return true;
    }
    if (landed_us_[chunk] > now) return false;
    memory_us_ += now - role.free_us;
    const DeviceConstants& device = world_.device;
    role.holds = true;
    Busy(now, device.chunk_us + schedule_.chunks()[chunk].bytes * 1e-3 *
                                    (device.multiply_us + device.row_tile_us * world_.row_tiles()));
    return true;
  }

  bool StartProduct(const Task& task, double now) {
    const bool join =
        task.op == OpKind::kRouter || task.op == OpKind::kQkvRope || task.op == OpKind::kLmHead;
    const bool experts = task.op == OpKind::kGateUp;
    if (WaitsReadyAt(task) > now || (experts && listed_us_[task.layer] > now)) return false;
    (join ? join_us_ : experts ? routing_us_ : other_us_) += now - multiply_.free_us;
    const bool normalises = (join || experts) && normalised_ != task.layer;
    if (normalises) normalised_ = task.layer;
    multiply_.started = true;
    const DeviceConstants& device = world_.device;
    const double operands = normalises        ? device.norm_us * world_.row_tiles()
                            : join || experts ? 0.0
                                              : device.operands_us;
    Busy(now, device.task_us + operands);
    return true;
  }

  void Busy(double now, double us) {
    busy_us_ += us;
    Work(multiply_, now, us);
  }

  // --- The finishing warps: behind the products, in order.
  void Finish(const Task& task, double now) {
    finish_us_ = std::max(finish_us_, now) + world_.device.finish_us;
    if (task.signal == kNoCounter) return;
    if (!world_.IsPacket(task.signal)) finish_us_ += world_.device.publish_us;
    world_.Signal(task.signal, finish_us_);
  }

  bool Sample(double now) {
    if (sampled_ || !multiply_.done() || !attend_.done()) return false;
    if (WaitsReadyAt(tasks().back()) > now) return false;
    finish_us_ = std::max(finish_us_, now) + world_.device.finish_us;
    sampled_ = true;
    return true;
  }

  // --- The attention warps.
  bool Attend(double now) {
    RoleState& role = attend_;
    if (role.done() || role.free_us > now) return false;
    if (Release(role)) return true;
    const Task& task = tasks()[role.task()];
    if (task.op == OpKind::kAttention && listed_us_[task.layer] == kNever) return Route(task, now);
    if (!role.started) {
      if (WaitsReadyAt(task) > now) return false;
      role.started = true;
      const bool merges = task.op == OpKind::kAttentionMerge;
      Work(role, now, world_.device.task_us + (merges ? MergeCount() * world_.device.merge_us : 0));
      return true;
    }
    const int chunk = NextChunk(role);
    if (chunk >= 0) {
      if (landed_us_[chunk] > now) return false;
      role.holds = true;
      const RingChunk& pages = schedule_.chunks()[chunk];
      Work(role, now,
           pages.bytes / world_.device.attend_bytes_per_us +
               (pages.starts_row ? world_.device.attend_row_us : 0));
      return true;
    }
    Work(role, now, world_.device.publish_us);
    if (task.signal != kNoCounter) world_.Signal(task.signal, role.free_us);
    ++role.next_task;
    role.started = false;
    return true;
  }

  bool Route(const Task& task, double now) {
    const CounterKind kind = world_.sparse[task.layer] ? CounterKind::kRouter : CounterKind::kX;
    if (world_.ReadyAt(CounterId(kind, task.layer, world_.layer_count)) > now) return false;
    Work(attend_, now, world_.device.routing_us * ((world_.rows + 3) / 4));
    listed_us_[task.layer] = attend_.free_us;
    return true;
  }

  int MergeCount() const {
    const int items = world_.rows * world_.query_heads;
    return (items - worker_ + world_.worker_count - 1) / world_.worker_count;
  }

  // --- The loader: the rule of ring_rules.h.
  void Land(double now) {
    while (!flight_.empty() && flight_.front().first <= now) {
      flight_bytes_ -= flight_.front().second;
      flight_.pop_front();
    }
  }

  bool Load(double now) {
    int first_task = std::numeric_limits<int>::max(), ready_task = first_task, choice = -1;
    std::array<int, kChunkQueueCount> next;
    std::array<bool, kChunkQueueCount> known;
    for (int q = 0; q < kChunkQueueCount; ++q) {
      next[q] = issued_[q] < order_[q].size() ? order_[q][issued_[q]] : -1;
      known[q] = next[q] >= 0 && (q != kRoutedQueue || listed_us_[LayerOf(next[q])] <= now);
    }
    const bool experts = known[kRoutedQueue] &&
                         tasks()[schedule_.chunks()[next[kRoutedQueue]].task].op == OpKind::kGateUp;
    for (int q = 0; q < kChunkQueueCount; ++q) {
      if (next[q] < 0) continue;
      if (q == kKvQueue && experts && held_[q] >= world_.ring.most_kv) continue;
      const int task = schedule_.chunks()[next[q]].task;
      first_task = std::min(first_task, task);
      if (!known[q] || task >= ready_task) continue;
      ready_task = task;
      choice = q;
    }
    if (choice < 0 || free_ <= (ready_task == first_task ? 0 : world_.ring.reserve)) return false;
    return IssueChunk(choice, next[choice], now);
  }

  int LayerOf(int chunk) const { return tasks()[schedule_.chunks()[chunk].task].layer; }

  bool IssueChunk(int queue, int chunk, double now) {
    const double bytes = schedule_.chunks()[chunk].bytes;
    if (flight_bytes_ > 0 && flight_bytes_ + bytes > world_.device.in_flight_bytes) return false;
    world_.stream_us =
        std::max(world_.stream_us, now) + bytes / (world_.device.stream_bytes_per_second * 1e-6);
    landed_us_[chunk] = world_.stream_us + world_.device.load_latency_us;
    flight_.push_back({landed_us_[chunk], bytes});
    flight_bytes_ += bytes;
    world_.wakes.push({landed_us_[chunk], worker_});
    ++issued_[queue];
    ++held_[queue];
    --free_;
    return true;
  }

  World& world_;
  const int worker_;
  const RingSchedule schedule_;
  RoleState multiply_, attend_;
  int normalised_ = -1;
  double finish_us_ = 0;
  bool sampled_ = false;
  double busy_us_ = 0, memory_us_ = 0, routing_us_ = 0, join_us_ = 0, other_us_ = 0;
  // Loader.
  int free_;
  std::array<std::vector<int>, kChunkQueueCount> order_;
  std::array<size_t, kChunkQueueCount> issued_ = {};
  std::array<int, kChunkQueueCount> held_ = {};
  std::vector<double> listed_us_;                 // [layer]
  std::vector<double> landed_us_;                 // [chunk]
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
  const int workers = graph.worker_count();
  World world{.device = device,
              .ring = ring,
              .layer_count = graph.shape().layer_count(),
              .rows = static_cast<int>(load.contexts.size()),
              .worker_count = workers,
              .query_heads = config.query_heads,
              .producers = graph.ProducerCounts()};
  world.counters.resize(graph.counter_count());
  for (const LayerShape& layer : graph.shape().layers) world.sparse.push_back(layer.sparse);
  std::vector<WorkerSimulation> simulations;
  simulations.reserve(workers);
  for (int worker = 0; worker < workers; ++worker) {
    simulations.emplace_back(world, worker,
                             RingSchedule::Of(config, graph, worker, load, ring.slot_bytes));
    world.wakes.push({0.0, worker});
  }
  while (!world.wakes.empty()) {
    const World::Wake wake = world.wakes.top();
    world.wakes.pop();
    simulations[wake.second].Look(wake.first);
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
