#include "kernels/task_graph/task_graph_checker.h"

#include <cstdio>
#include <functional>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/models/north_geometry.h"
#include "tests/unit/kernels/task_graph/graph_configs.h"

namespace baton {
namespace {

using testing::HasSubstr;

TEST(TaskGraphChecker, AcceptsEveryBuiltGraph) {
  for (const NamedConfig& named : SmallConfigs()) {
    for (int worker_count : {1, 2, 3, 4, 5, 8, 13, 100, 132}) {
      const absl::Status status = CheckTaskGraph(TaskGraph::Build(named.config, worker_count));
      EXPECT_TRUE(status.ok()) << named.name << ", " << worker_count << " workers: " << status;
    }
  }
}

TEST(TaskGraphChecker, AcceptsNorthMiniOnAGpu) {
  for (int worker_count : {100, 132}) {
    const absl::Status status =
        CheckTaskGraph(TaskGraph::Build(NorthMiniCodeGeometry(), worker_count));
    EXPECT_TRUE(status.ok()) << status;
  }
}

void DeriveThresholds(const GraphShape& shape, TaskLists& lists) {
  const std::vector<uint16_t> producers = TaskGraph(shape, lists).ProducerCounts();
  for (auto& list : lists) {
    for (Task& task : list) {
      for (TaskWait& wait : task.waits) {
        if (wait.counter < producers.size()) wait.producers = producers[wait.counter];
      }
    }
  }
}

bool OwnsUnits(const Task& task) { return task.end > task.begin; }

// One way to break a graph at a task. False: it does not apply there.
struct Mutation {
  const char* name;
  std::function<bool(TaskLists& lists, int worker, size_t index, std::mt19937& random)> apply;
};

uint16_t OtherCounter(uint16_t counter, const TaskLists& lists, std::mt19937& random) {
  for (;;) {
    const auto& list = lists[random() % lists.size()];
    const uint16_t other = list[random() % list.size()].signal;
    if (other != kNoCounter && other != counter) return other;
  }
}

std::vector<Mutation> SignalMutations() {
  return {
      {"dropped signal",
       [](TaskLists& lists, int worker, size_t index, std::mt19937&) {
         Task& task = lists[worker][index];
         return std::exchange(task.signal, kNoCounter) != kNoCounter;
       }},
      {"doubled task",
       [](TaskLists& lists, int worker, size_t index, std::mt19937&) {
         auto& list = lists[worker];
         const Task copy = list[index];
         list.insert(list.begin() + static_cast<std::ptrdiff_t>(index), copy);
         return true;
       }},
      {"signal to another counter",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         Task& task = lists[worker][index];
         if (task.signal == kNoCounter) return false;
         task.signal = OtherCounter(task.signal, lists, random);
         return true;
       }},
      {"signal to no counter that exists",
       [](TaskLists& lists, int worker, size_t index, std::mt19937&) {
         Task& task = lists[worker][index];
         task.signal = kNoCounter - 1;
         return true;
       }},
      {"signals of two tasks swapped",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         auto& other_list = lists[random() % lists.size()];
         Task& other = other_list[random() % other_list.size()];
         Task& task = lists[worker][index];
         std::swap(task.signal, other.signal);
         return task.signal != other.signal;
       }},
      {"signal where there was none",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         Task& task = lists[worker][index];
         if (task.signal != kNoCounter) return false;
         task.signal = OtherCounter(kNoCounter, lists, random);
         return true;
       }},
  };
}

Mutation ThresholdMutation(const char* name, int delta) {
  return {name, [delta](TaskLists& lists, int worker, size_t index, std::mt19937&) {
            TaskWait& wait = lists[worker][index].waits[0];
            if (wait.counter == kNoCounter) return false;
            wait.producers = static_cast<uint16_t>(wait.producers + delta);
            return true;
          }};
}

std::vector<Mutation> WaitMutations() {
  return {
      ThresholdMutation("threshold too high", 1),
      ThresholdMutation("threshold too low", -1),
      {"dropped wait",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         TaskWait& wait = lists[worker][index].waits[random() % 2];
         return std::exchange(wait, TaskWait{}).counter != kNoCounter;
       }},
      {"wait for another counter",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         TaskWait& wait = lists[worker][index].waits[0];
         if (wait.counter == kNoCounter) return false;
         wait.counter = OtherCounter(wait.counter, lists, random);
         return true;
       }},
  };
}

Mutation RangeMutation(const char* name, int begin_delta, int end_delta) {
  return {name, [=](TaskLists& lists, int worker, size_t index, std::mt19937&) {
            Task& task = lists[worker][index];
            if (!OwnsUnits(task)) return false;
            task.begin = static_cast<uint32_t>(static_cast<int>(task.begin) + begin_delta);
            task.end = static_cast<uint32_t>(static_cast<int>(task.end) + end_delta);
            return true;
          }};
}

std::vector<Mutation> OwnershipMutations() {
  return {
      RangeMutation("first unit unowned", 1, 0),
      RangeMutation("last unit unowned", 0, -1),
      RangeMutation("one unit too many", 0, 1),
      RangeMutation("shifted range", 1, 1),
      {"removed task",
       [](TaskLists& lists, int worker, size_t index, std::mt19937&) {
         auto& list = lists[worker];
         list.erase(list.begin() + static_cast<std::ptrdiff_t>(index));
         return true;
       }},
      {"ranges of o_proj swapped between workers",
       [](TaskLists& lists, int worker, size_t index, std::mt19937&) {
         Task& task = lists[worker][index];
         if (task.op != OpKind::kOutputProj) return false;
         for (Task& other : lists[(worker + 1) % lists.size()]) {
           if (other.op != task.op || other.layer != task.layer || &other == &task) continue;
           std::swap(task.begin, other.begin);
           std::swap(task.end, other.end);
           return true;
         }
         return false;
       }},
  };
}

std::vector<Mutation> PlaceMutations() {
  return {
      {"wrong copy of a rotated buffer",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         Task& task = lists[worker][index];
         task.buffer_epoch =
             static_cast<uint16_t>((task.buffer_epoch + 1 + random() % 2) % kBufferCopies);
         return true;
       }},
      {"wrong layer",
       [](TaskLists& lists, int worker, size_t index, std::mt19937&) {
         ++lists[worker][index].layer;
         return true;
       }},
      {"wrong part",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         Task& task = lists[worker][index];
         task.part = static_cast<uint8_t>((task.part + 1 + random() % 2) % 3);
         return true;
       }},
      {"wrong op",
       [](TaskLists& lists, int worker, size_t index, std::mt19937& random) {
         Task& task = lists[worker][index];
         task.op = static_cast<OpKind>((static_cast<int>(task.op) + 1 + random() % (kOpCount - 1)) %
                                       kOpCount);
         return true;
       }},
      {"consumer before producer in a list",
       [](TaskLists& lists, int worker, size_t index, std::mt19937&) {
         auto& list = lists[worker];
         if (index + 1 >= list.size()) return false;
         const OpKind first = list[index].op;
         const OpKind second = list[index + 1].op;
         const bool ordered = (first == OpKind::kOutputProj && second == OpKind::kDown) ||
                              (first == OpKind::kDown && second == OpKind::kOutputProj) ||
                              (first == OpKind::kAttentionMerge && second == OpKind::kOutputProj) ||
                              (first == OpKind::kAttention && second == OpKind::kAttentionMerge) ||
                              (first == OpKind::kLmHead && second == OpKind::kSample);
         if (!ordered) return false;
         std::swap(list[index], list[index + 1]);
         return true;
       }},
  };
}

// Applies each mutation at many tasks; every mutant must be refused, with thresholds as they were
// and with thresholds derived again, so that counts agree.
int CountRefused(const NamedConfig& named, int worker_count, const std::vector<Mutation>& mutations,
                 std::mt19937& random) {
  const TaskGraph graph = TaskGraph::Build(named.config, worker_count);
  int mutant_count = 0;
  for (const Mutation& mutation : mutations) {
    for (int attempt = 0; attempt < 24; ++attempt) {
      TaskLists lists = graph.lists();
      const int worker = static_cast<int>(random() % lists.size());
      const size_t index = random() % lists[worker].size();
      const std::string where = TaskDebugString(lists[worker][index], named.config.layer_count);
      if (!mutation.apply(lists, worker, index, random)) continue;
      const bool threshold = std::string(mutation.name).starts_with("threshold");
      for (bool derive : {false, true}) {
        if (derive && threshold) continue;  // It would undo the mutation.
        if (derive) DeriveThresholds(graph.shape(), lists);
        const absl::Status status = CheckTaskGraph(TaskGraph(graph.shape(), lists));
        EXPECT_FALSE(status.ok()) << mutation.name << " (" << named.name << ", " << worker_count
                                  << " workers, worker " << worker << "): " << where;
        ++mutant_count;
      }
    }
  }
  return mutant_count;
}

TEST(TaskGraphChecker, RefusesEveryMutant) {
  std::mt19937 random(20261129);
  int mutant_count = 0;
  for (const NamedConfig& named : SmallConfigs()) {
    for (int worker_count : {2, 3, 5, 17}) {
      for (const auto& mutations :
           {SignalMutations(), WaitMutations(), OwnershipMutations(), PlaceMutations()}) {
        mutant_count += CountRefused(named, worker_count, mutations, random);
      }
    }
  }
  std::printf("  %d mutants refused\n", mutant_count);
  EXPECT_GT(mutant_count, 1000);
}

TEST(TaskGraphChecker, NamesTheTaskAndWhatWasWanted) {
  const TaskGraph graph = TaskGraph::Build(GraphConfig(4, 1, SharedExperts::kNone), 2);
  TaskLists lists = graph.lists();
  for (Task& task : lists[1]) {
    if (task.op == OpKind::kDown && task.layer == 2) ++task.waits[0].producers;
  }
  const absl::Status status = CheckTaskGraph(TaskGraph(graph.shape(), lists));
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1: Down"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("wanted the threshold 2"));
}

}  // namespace
}  // namespace baton
