#include "kernels/task_graph/epoch_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/task_graph/signal_rules.h"

namespace baton {
namespace {

// Steps at which the products of small numbers with the step pass a wrap of 2^31 or 2^32, and their
// neighbours.
std::vector<uint32_t> TellingSteps(uint32_t producers) {
  std::vector<uint32_t> steps = {1, 2, 3, 1000, 0xffffffffu, 0};
  for (uint64_t wrap : {uint64_t{1} << 31, uint64_t{1} << 32}) {
    const auto at = static_cast<uint32_t>(wrap / std::max(1u, producers));
    for (uint32_t near : {at - 1, at, at + 1}) steps.push_back(near);
  }
  return steps;
}

// What is wrong with waiting for `wanted` signals a step of a counter that gets `producers`.
std::string Fault(uint32_t wanted, uint32_t producers) {
  if (producers == 0) return "waits for a counter that none signals";
  if (producers >= 1u << 31) return "waits for more signals than a wrap can tell apart";
  for (uint32_t step : TellingSteps(producers)) {
    const uint32_t target = wanted * step;  // As the device computes it.
    const uint32_t begin = producers * (step - 1);
    if (HasReached(begin + producers - 1, target))
      return absl::StrCat("goes on before the last signal of step ", step);
    if (!HasReached(begin + producers, target))
      return absl::StrCat("waits for ever in step ", step);
  }
  return "";
}

}  // namespace

absl::Status CheckEpochs(const TaskGraph& graph) {
  const std::vector<uint16_t> producers = graph.ProducerCounts();
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    for (const Task& task : graph.tasks(worker)) {
      for (const TaskWait& wait : task.waits) {
        if (wait.counter == kNoCounter) continue;
        const uint32_t signals = wait.counter < producers.size() ? producers[wait.counter] : 0;
        const std::string fault = Fault(wait.producers, signals);
        if (!fault.empty()) return TaskError(graph, worker, task, fault);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
