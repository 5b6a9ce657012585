#include "kernels/cpu/interpreter.h"

#include <atomic>
#include <set>

#include "gtest/gtest.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

// Runs `steps` steps and sees that each task runs once a step, after all it waits for.
void ExpectEveryTaskInOrder(int worker_count, const InterpreterOptions& options, int steps) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kSum), worker_count);
  std::vector<std::atomic<uint32_t>> signals(graph.counter_count());
  std::atomic<uint32_t> run{0};
  std::atomic<uint32_t> early{0};
  std::vector<uint32_t> step_of(worker_count, 0);
  Interpreter interpreter(graph,
                          {.begin_step = [&](int worker) { ++step_of[worker]; },
                           .run =
                               [&](int worker, const Task& task) {
                                 for (const TaskWait& wait : task.waits) {
                                   if (wait.counter == kNoCounter) continue;
                                   if (signals[wait.counter] < wait.producers * step_of[worker])
                                     ++early;
                                 }
                                 ++run;
                                 if (task.signal != kNoCounter) ++signals[task.signal];
                               }},
                          options);
  for (int step = 1; step <= steps; ++step) {
    interpreter.Start();
    interpreter.Wait();
    EXPECT_EQ(run.load(), graph.task_count() * step);
  }
  EXPECT_EQ(early.load(), 0u);
  EXPECT_EQ(interpreter.step(), static_cast<uint64_t>(steps));
  EXPECT_GT(interpreter.stats().step_seconds, 0);
  EXPECT_LE(interpreter.stats().wait_seconds, interpreter.stats().step_seconds);
}

TEST(Interpreter, RunsTheListsOnThreads) {
  for (int worker_count : {1, 2, 5}) ExpectEveryTaskInOrder(worker_count, {}, 20);
}

TEST(Interpreter, RunsTheListsInAnyOrder) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    ExpectEveryTaskInOrder(4, {.shuffle_seed = seed}, 5);
  }
}

TEST(Interpreter, ShufflesDifferentlyPerSeedAndStep) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(3, 1, SharedExperts::kNone), 4);
  std::set<std::vector<int>> orders;
  for (uint64_t seed : {1, 2}) {
    std::vector<int> order;
    Interpreter interpreter(graph,
                            {.begin_step = [](int) {},
                             .run = [&](int worker, const Task&) { order.push_back(worker); }},
                            {.shuffle_seed = seed});
    for (int step = 0; step < 2; ++step) {
      order.clear();
      interpreter.Start();
      interpreter.Wait();
      orders.insert(order);
    }
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST(InterpreterDeathTest, EndsTheProcessWhereNothingCanRun) {
  TaskGraph graph = TaskGraph::Build(GraphConfig(2, 1, SharedExperts::kNone), 1);
  TaskLists lists = graph.lists();
  // More signals wanted than there are producers.
  for (Task& task : lists[0]) {
    if (task.op == OpKind::kSample) task.waits[0].producers = 2;
  }
  const TaskGraph broken(graph.shape(), lists);
  EXPECT_DEATH(
      {
        Interpreter interpreter(broken, {.begin_step = [](int) {}, .run = [](int, const Task&) {}},
                                {.shuffle_seed = 1});
        interpreter.Start();
      },
      "ready.empty");
}

}  // namespace
}  // namespace baton
