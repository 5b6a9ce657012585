#include "kernels/task_graph/step_simulator.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/task_graph/task_parts.h"

namespace baton {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

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
  // What travels as packets; of x only one row tile, of the merged heads one row is not waited for
  // by counter.
  bool IsPacket(uint16_t counter) const {
    const CounterKind kind = PlaceOfCounter(counter, layer_count).kind;
    if (kind == CounterKind::kX) return row_tiles() == 1;
    if (kind == CounterKind::kMerged) return rows == 1;
    return kind == CounterKind::kRouter || kind == CounterKind::kQkv;
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
        bytes_(schedule.bytes()),
        tasks_(std::move(schedule.tasks)),
        multiply_{.chunks = std::move(schedule.weights)},
        attend_{.chunks = std::move(schedule.kv)},
        listed_us_(world_.layer_count, kNever) {
    for (size_t i = 0; i < tasks().size(); ++i) {
      const Role role = RoleOf(tasks()[i].op);
      if (role == Role::kMultiply) multiply_.tasks.push_back(static_cast<int>(i));
      if (role == Role::kAttend) attend_.tasks.push_back(static_cast<int>(i));
    }
    if (!tasks().empty() && tasks()[0].op == OpKind::kEmbed) Finish(tasks()[0], 0);
  }

  bool done() const { return sampled_; }
  double end_us() const { return finish_us_; }
  // The task at which it is.
  int task() const {
    return !multiply_.done() ? multiply_.task() : !attend_.done() ? attend_.task() : last_task();
  }
  const std::vector<Task>& tasks() const { return tasks_; }
  uint64_t bytes() const { return bytes_; }
  double busy_us() const { return busy_us_; }
  double memory_us() const { return memory_us_; }
  double routing_us() const { return routing_us_; }
  double join_us() const { return join_us_; }
  double other_us() const { return other_us_; }

  // Does all that can be done at `now`.
  void Look(double now) {
    while (Multiply(now) || Attend(now) || Sample(now) || LoadWeights(now) || LoadKv(now)) {
    }
  }

 private:
  // Warps that walk their part of the list, and the ring that they take their chunks from.
  struct RoleState {
    std::vector<RingChunk> chunks;
    std::vector<int> tasks;
    size_t next_task = 0;
    size_t taken = 0;               // Chunks released,
    std::vector<double> landed_us;  // and when each one issued lands.
    bool started = false, holds = false;
    double free_us = 0;  // Until when it works.
    bool done() const { return next_task == tasks.size(); }
    int task() const { return tasks[next_task]; }
    // The chunk to take next is the task's.
    bool has_chunk() const { return taken < chunks.size() && chunks[taken].task == task(); }
    bool landed(double now) const { return taken < landed_us.size() && landed_us[taken] <= now; }
  };

  int last_task() const { return static_cast<int>(tasks().size()) - 1; }
  void Work(RoleState& role, double now, double us) {
    role.free_us = now + us;
    world_.wakes.push({role.free_us, worker_});
  }
  // Its chunk's slot is free again.
  bool Release(RoleState& role) {
    if (!role.holds) return false;
    role.holds = false;
    ++role.taken;
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
    if (!role.has_chunk()) {
      Finish(task, now);
      ++role.next_task;
      role.started = false;
      return true;
    }
    if (!role.landed(now)) return false;
    memory_us_ += now - role.free_us;
    const DeviceConstants& device = world_.device;
    role.holds = true;
    const double chunk_us =
        IsRouted(task.op) && world_.rows > 16 ? device.gathered_chunk_us : device.chunk_us;
    Busy(now, chunk_us + role.chunks[role.taken].bytes * 1e-3 *
                             (device.multiply_us + device.row_tile_us * RowTiles(task)));
    return true;
  }

  // Of a product: an expert's few rows are gathered, but not in GateUp of up to 16 and Down of up
  // to 8 rows.
  int RowTiles(const Task& task) const {
    const bool gathers = IsRouted(task.op) && world_.rows > (task.op == OpKind::kDown ? 8 : 16);
    return gathers ? 1 : world_.row_tiles();
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
    const double norm_us =
        world_.rows == 1 ? device.sole_norm_us : device.norm_us * world_.row_tiles();
    const double operands = normalises ? norm_us : join || experts ? 0.0 : device.operands_us;
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
    if (role.has_chunk()) {
      if (!role.landed(now)) return false;
      role.holds = true;
      const RingChunk& pages = role.chunks[role.taken];
      Work(role, now,
           pages.bytes / world_.device.attend_bytes_per_us +
               (pages.starts_row ? world_.device.attend_row_us : 0));
      return true;
    }
    const bool packet = task.signal == kNoCounter || world_.IsPacket(task.signal);
    Work(role, now, packet ? 0 : world_.device.publish_us);
    if (task.signal != kNoCounter) world_.Signal(task.signal, role.free_us);
    ++role.next_task;
    role.started = false;
    return true;
  }

  bool Route(const Task& task, double now) {
    const CounterKind kind = world_.sparse[task.layer] ? CounterKind::kRouter : CounterKind::kX;
    if (world_.ReadyAt(CounterId(kind, task.layer, world_.layer_count)) > now) return false;
    // Of more than four rows each is selected by one worker, for all.
    Work(attend_, now, world_.device.routing_us + (world_.rows > 4 ? world_.device.hop_us : 0));
    listed_us_[task.layer] = attend_.free_us;
    return true;
  }

  int MergeCount() const {
    const int items = world_.rows * world_.query_heads;
    return (items - worker_ + world_.worker_count - 1) / world_.worker_count;
  }

  // --- The loader: the rule of ring_rules.h.
  bool LoadWeights(double now) {
    const size_t issued = multiply_.landed_us.size();
    const size_t flying = world_.ring.in_flight_chunks;
    if (issued >= flying && multiply_.landed_us[issued - flying] > now) return false;
    if (issued < multiply_.chunks.size()) {
      const Task& task = tasks()[multiply_.chunks[issued].task];
      if (IsRouted(task.op) && listed_us_[task.layer] > now) return false;
    }
    return Issue(multiply_, world_.ring.weight_slots, now);
  }

  bool LoadKv(double now) { return Issue(attend_, world_.ring.kv_slots, now); }

  // The ring's next chunk, if there is one and it has a slot.
  bool Issue(RoleState& role, int slots, double now) {
    const size_t issued = role.landed_us.size();
    if (issued == role.chunks.size() || issued >= role.taken + slots) return false;
    world_.stream_us = std::max(world_.stream_us, now) +
                       role.chunks[issued].bytes / (world_.device.stream_bytes_per_second * 1e-6);
    role.landed_us.push_back(world_.stream_us + world_.device.load_latency_us);
    world_.wakes.push({role.landed_us.back(), worker_});
    return true;
  }

  World& world_;
  const int worker_;
  const uint64_t bytes_;
  const std::vector<Task> tasks_;
  RoleState multiply_, attend_;
  int normalised_ = -1;
  double finish_us_ = 0;
  bool sampled_ = false;
  double busy_us_ = 0, memory_us_ = 0, routing_us_ = 0, join_us_ = 0, other_us_ = 0;
  std::vector<double> listed_us_;  // [layer]
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
    simulations.emplace_back(world, worker, RingSchedule::Of(config, graph, worker, load, ring));
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

}  // namespace baton
