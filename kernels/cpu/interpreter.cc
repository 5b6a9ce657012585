#include "kernels/cpu/interpreter.h"

#include <chrono>
#include <random>
#include <utility>

#include "common/check.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace baton {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Pause() {
#ifdef __x86_64__
  _mm_pause();
#endif
}

bool Reached(uint32_t value, uint32_t target) { return static_cast<int32_t>(value - target) >= 0; }

// Pauses before a waiting worker sleeps: some 20 µs where each worker has a core, next to nothing
// where they share cores and spinning keeps the awaited one from running.
int SpinLimit(int worker_count) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return worker_count <= cores ? 2000 : 16;
}

}  // namespace

Interpreter::Interpreter(const TaskGraph& graph, Callbacks callbacks,
                         const InterpreterOptions& options)
    : graph_(graph),
      callbacks_(std::move(callbacks)),
      options_(options),
      spin_limit_(SpinLimit(graph.worker_count())),
      producers_(graph.ProducerCounts()),
      counters_(std::make_unique<Counter[]>(graph.counter_count())),
      times_(std::make_unique<WorkerTimes[]>(graph.worker_count())) {
  if (options_.shuffle_seed.has_value()) return;
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    threads_.emplace_back([this, worker] { WorkerMain(worker); });
  }
}

Interpreter::~Interpreter() {
  stop_.store(true, std::memory_order_relaxed);
  started_.value.fetch_add(1, std::memory_order_release);
  started_.value.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Interpreter::Start() {
  ++step_;
  step_begin_ns_ = NowNs();
  if (options_.shuffle_seed.has_value()) return RunShuffled(static_cast<uint32_t>(step_));
  started_.value.store(static_cast<uint32_t>(step_), std::memory_order_release);
  started_.value.notify_all();
}

void Interpreter::Wait() {
  const auto step = static_cast<uint32_t>(step_);
  if (!options_.shuffle_seed.has_value()) {
    const auto target = static_cast<uint32_t>(step_ * threads_.size());
    for (;;) {
      const uint32_t value = ended_.value.load(std::memory_order_acquire);
      if (Reached(value, target)) break;
      ended_.value.wait(value, std::memory_order_acquire);
    }
  }
  CheckCounters(step);
  const int worker_count = graph_.worker_count();
  stats_.step_seconds += 1e-9 * static_cast<double>(NowNs() - step_begin_ns_) * worker_count;
  for (int worker = 0; worker < worker_count; ++worker) {
    stats_.wait_seconds += 1e-9 * static_cast<double>(std::exchange(times_[worker].wait_ns, 0));
  }
}

void Interpreter::WorkerMain(int worker) {
  for (uint32_t step = 1;; ++step) {
    WorkerTimes idle;  // Time between steps counts as nobody's.
    AwaitAtLeast(started_.value, step, idle);
    if (stop_.load(std::memory_order_relaxed)) return;
    RunList(worker, step);
    ended_.value.fetch_add(1, std::memory_order_release);
    ended_.value.notify_all();
  }
}

void Interpreter::RunList(int worker, uint32_t step) {
  callbacks_.begin_step(worker);
  for (const Task& task : graph_.tasks(worker)) {
    for (const TaskWait& wait : task.waits) {
      if (wait.counter == kNoCounter) continue;
      AwaitAtLeast(counters_[wait.counter].value, wait.producers * step, times_[worker]);
    }
    callbacks_.run(worker, task);
    Finish(task, step);
  }
}

void Interpreter::RunShuffled(uint32_t step) {
  // Far apart, so that no seed's next step is another seed's.
  std::mt19937_64 random(*options_.shuffle_seed ^ (step * 0x9E3779B97F4A7C15u));
  const int worker_count = graph_.worker_count();
  std::vector<size_t> next(worker_count, 0);
  for (int worker = 0; worker < worker_count; ++worker) callbacks_.begin_step(worker);
  std::vector<int> ready;
  for (size_t left = graph_.task_count(); left > 0; --left) {
    ready.clear();
    for (int worker = 0; worker < worker_count; ++worker) {
      const auto tasks = graph_.tasks(worker);
      if (next[worker] < tasks.size() && Ready(tasks[next[worker]], step)) ready.push_back(worker);
    }
    BATON_CHECK(!ready.empty());  // Else the graph is circular.
    const int worker = ready[random() % ready.size()];
    const auto tasks = graph_.tasks(worker);
    const Task& task = tasks[next[worker]++];
    callbacks_.run(worker, task);
    Finish(task, step);
  }
}

bool Interpreter::Ready(const Task& task, uint32_t step) const {
  for (const TaskWait& wait : task.waits) {
    if (wait.counter == kNoCounter) continue;
    const uint32_t value = counters_[wait.counter].value.load(std::memory_order_acquire);
    if (!Reached(value, wait.producers * step)) return false;
  }
  return true;
}

void Interpreter::Finish(const Task& task, uint32_t step) {
  if (task.signal == kNoCounter) return;
  std::atomic<uint32_t>& counter = counters_[task.signal].value;
  const uint32_t before = counter.fetch_add(1, std::memory_order_acq_rel);
  // One signal too many would let a later step's wait pass early.
  BATON_CHECK(!Reached(before, producers_[task.signal] * step));
  counter.notify_all();
}

void Interpreter::AwaitAtLeast(std::atomic<uint32_t>& counter, uint32_t target,
                               WorkerTimes& times) {
  uint32_t value = counter.load(std::memory_order_acquire);
  if (Reached(value, target)) return;
  const int64_t begin_ns = NowNs();
  for (int spin = 0; spin < spin_limit_ && !Reached(value, target); ++spin) {
    Pause();
    value = counter.load(std::memory_order_acquire);
  }
  while (!Reached(value, target)) {
    counter.wait(value, std::memory_order_acquire);
    value = counter.load(std::memory_order_acquire);
  }
  times.wait_ns += NowNs() - begin_ns;
}

void Interpreter::CheckCounters(uint32_t step) const {
  for (int counter = 0; counter < graph_.counter_count(); ++counter) {
    const uint32_t value = counters_[counter].value.load(std::memory_order_relaxed);
    BATON_CHECK(value == producers_[counter] * step);
  }
}

}  // namespace baton
