#include "kernels/task_graph/buffer_rules.h"

#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/task_graph/op_contract.h"
#include "kernels/task_graph/signal_rules.h"

namespace baton {
namespace {

// Readers and writers of one version in one place.
struct Uses {
  std::vector<PartRef> writers;
  std::vector<PartRef> readers;
};

// Where bytes lie. `worker` is -1 for shared buffers.
using Place = std::tuple<Buffer, int, int>;  // buffer, copy, worker

class BufferChecker {
 public:
  BufferChecker(const TaskGraph& graph, const HappensBefore& order) : graph_(graph), order_(order) {
    for (int worker = 0; worker < graph.worker_count(); ++worker) {
      const std::vector<TaskPart>& parts = order.parts(worker);
      for (size_t index = 0; index < parts.size(); ++index) {
        const PartAccesses accesses = AccessesOf(graph, worker, parts[index], order.order());
        const PartRef part{worker, static_cast<int>(index)};
        for (const BufferAccess& read : accesses.reads) {
          UsesOf(read, worker).readers.push_back(part);
        }
        for (const BufferAccess& write : accesses.writes) {
          UsesOf(write, worker).writers.push_back(part);
        }
      }
    }
  }

  absl::Status Check() const {
    for (const auto& [place, versions] : places_) {
      for (auto version = versions.begin(); version != versions.end(); ++version) {
        const Uses& uses = version->second;
        if (uses.writers.empty())
          return Error(uses.readers[0], place, "reads what none has written");
        BATON_RETURN_IF_ERROR(
            AllPrecede(place, uses.writers, uses.readers, "is read before it is all written"));
        const auto next = std::next(version);
        if (next == versions.end()) continue;
        BATON_RETURN_IF_ERROR(AllPrecede(place, uses.readers, next->second.writers,
                                         "is overwritten before its readers are done"));
        BATON_RETURN_IF_ERROR(AllPrecede(place, uses.writers, next->second.writers,
                                         "is overwritten before it is all written"));
      }
    }
    return CheckEnd();
  }

 private:
  Uses& UsesOf(const BufferAccess& access, int worker) {
    const bool own = access.buffer == Buffer::kKept || access.buffer == Buffer::kExpertList;
    const int owner = own ? worker : -1;
    return places_[{access.buffer, access.copy, owner}][access.version];
  }

  absl::Status AllPrecede(const Place& place, const std::vector<PartRef>& first,
                          const std::vector<PartRef>& second, const char* what) const {
    for (const PartRef& after : second) {
      for (const PartRef& before : first) {
        const bool same = before.worker == after.worker && before.index == after.index;
        if (same || !order_.Precedes(before, after)) return Error(after, place, what);
      }
    }
    return absl::OkStatus();
  }

  // Each worker's list ends with a task that signals the step, so that the step counter stands for
  // every task before it.
  absl::Status CheckEnd() const {
    const uint16_t step = CounterId(CounterKind::kStep, 0, graph_.shape().layer_count());
    for (int worker = 0; worker < graph_.worker_count(); ++worker) {
      const absl::Span<const Task> tasks = graph_.tasks(worker);
      if (!tasks.empty() && tasks.back().signal == step) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("worker ", worker, ": wanted a last task that signals the step"));
    }
    return absl::OkStatus();
  }

  absl::Status Error(const PartRef& part, const Place& place, const char* what) const {
    return TaskError(
        graph_, part.worker, graph_.tasks(part.worker)[order_.parts(part.worker)[part.index].task],
        absl::StrCat(BufferName(std::get<0>(place)), " copy ", std::get<1>(place), " ", what));
  }

  const TaskGraph& graph_;
  const HappensBefore& order_;
  std::map<Place, std::map<int, Uses>> places_;  // place -> version -> uses
};

}  // namespace

absl::Status CheckBuffers(const TaskGraph& graph, const HappensBefore& order) {
  return BufferChecker(graph, order).Check();
}

}  // namespace baton
