// Interpreter: persistent worker threads that walk a TaskGraph's lists, with the same counters and
// the same ownership as the megakernel. One owner thread starts steps and waits for them; the
// graph, and what the callbacks use, outlive it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/task_graph/task_graph.h"

namespace baton {

struct InterpreterOptions {
  // Instead of threads: each step runs on the owner's thread, picking at random (from this seed)
  // among the workers whose next task is ready. Results must not change; tests see that.
  std::optional<uint64_t> shuffle_seed;
};

struct InterpreterStats {
  double wait_seconds = 0;  // Of all workers, within steps.
  double step_seconds = 0;  // Of all workers: wall time of the steps times workers.
};

class Interpreter {
 public:
  struct Callbacks {
    std::function<void(int worker)> begin_step;  // On the worker's thread, before its first task.
    std::function<void(int worker, const Task& task)> run;
  };

  Interpreter(const TaskGraph& graph, Callbacks callbacks, const InterpreterOptions& options);
  ~Interpreter();  // No step may be running.
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Begins the next step; the one before has ended.
  void Start();
  // Returns when the started step has ended. What the workers wrote is visible then.
  void Wait();

  uint64_t step() const { return step_; }  // Steps started.
  InterpreterStats stats() const { return stats_; }

 private:
  struct alignas(64) Counter {
    std::atomic<uint32_t> value{0};  // Wraps; compared by difference.
  };
  struct alignas(64) WorkerTimes {
    int64_t wait_ns = 0;
  };

  void WorkerMain(int worker);
  void RunList(int worker, uint32_t step);
  void RunShuffled(uint32_t step);
  bool Ready(const Task& task, uint32_t step) const;
  void Finish(const Task& task, uint32_t step);
  // Blocks until counter - target >= 0: spins a little, then sleeps.
  void AwaitAtLeast(std::atomic<uint32_t>& counter, uint32_t target, WorkerTimes& times);
  void CheckCounters(uint32_t step) const;

  const TaskGraph& graph_;
  const Callbacks callbacks_;
  const InterpreterOptions options_;
  const int spin_limit_;
  std::vector<uint16_t> producers_;
  std::unique_ptr<Counter[]> counters_;
  Counter started_;  // Steps started; stop_ is read after it moved.
  Counter ended_;    // Workers that ended a step, over all steps.
  std::atomic<bool> stop_{false};
  std::unique_ptr<WorkerTimes[]> times_;
  std::vector<std::thread> threads_;
  uint64_t step_ = 0;
  int64_t step_begin_ns_ = 0;
  InterpreterStats stats_;
};

}  // namespace baton
