// Predicts decode steps of North Mini Code on an H200 without one:
//   decode_simulation [--workers N] [--weight-slots N] [--kv-slots N] [--check-rings 1]
// A line for each batch size and routing that was measured; or, for each, whether a worker's rings
// can stop. Slots other than the kernel's may be asked for.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "kernels/models/north_geometry.h"
#include "kernels/task_graph/ring_rules.h"
#include "kernels/task_graph/step_simulator.h"
#include "tests/bench/measured_steps.h"

namespace baton {
namespace {

struct Options {
  int workers = 132;
  int weight_slots = 0, kv_slots = 0;  // 0: the kernel's.
  int check_rings = 0;

  RingShape RingFor(const MeasuredStep& point) const {
    RingShape ring = point.ring();
    if (weight_slots != 0) ring.weight_slots = weight_slots;
    ring.in_flight_chunks = std::min(ring.in_flight_chunks, ring.weight_slots);
    if (kv_slots != 0) ring.kv_slots = kv_slots;
    return ring;
  }
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "decode_simulation: %s\n", status.ToString().c_str());
  return 1;
}

int Run(const ModelConfig& config, const TaskGraph& graph, const Options& options) {
  std::printf("%5s %8s %8s %9s %9s %7s %9s | %6s %6s %7s %6s %6s\n", "batch", "context", "experts",
              "ms/step", "measured", "error", "stream ms", "busy", "memory", "routing", "join",
              "other");
  for (const MeasuredStep& point : kMeasuredSteps) {
    const StepLoad load = point.load();
    const auto predicted = PredictStep(config, graph, load, options.RingFor(point));
    if (!predicted.ok()) return Fail(predicted.status());
    const double ms = predicted->step_us * 1e-3;
    std::printf(
        "%5d %8d %8d %9.3f %9.2f %+6.1f%% %9.3f | %5.1f%% %5.1f%% %6.1f%% %5.1f%% %5.1f%%\n",
        point.batch, point.context, load.active_experts, ms, point.ms, (ms / point.ms - 1) * 100,
        predicted->stream_us * 1e-3, predicted->busy * 100, predicted->wait_memory * 100,
        predicted->wait_routing * 100, predicted->wait_join * 100, predicted->wait_other * 100);
  }
  return 0;
}

// Checks every worker's rings at the same points.
int CheckAllRings(const ModelConfig& config, const TaskGraph& graph, const Options& options) {
  for (const MeasuredStep& point : kMeasuredSteps) {
    const StepLoad load = point.load();
    const absl::Status status = CheckRings(config, graph, load, options.RingFor(point));
    if (!status.ok()) return Fail(status);
    std::printf("batch %d, context %d, %d experts: the rings never stop\n", point.batch,
                point.context, load.active_experts);
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::Options options;
  const std::pair<const char*, int*> flags[] = {{"--workers", &options.workers},
                                                {"--weight-slots", &options.weight_slots},
                                                {"--kv-slots", &options.kv_slots},
                                                {"--check-rings", &options.check_rings}};
  for (int i = 1; i < argc; i += 2) {
    const auto flag = std::find_if(std::begin(flags), std::end(flags), [&](const auto& known) {
      return std::strcmp(argv[i], known.first) == 0;
    });
    if (flag == std::end(flags) || i + 1 == argc || !absl::SimpleAtoi(argv[i + 1], flag->second)) {
      std::fprintf(stderr,
                   "usage: decode_simulation [--workers N] [--weight-slots N] [--kv-slots N] "
                   "[--check-rings 1]\n");
      return 2;
    }
  }
  const baton::ModelConfig config = baton::NorthMiniCodeGeometry();
  const baton::TaskGraph graph = baton::TaskGraph::Build(config, options.workers);
  return options.check_rings != 0 ? baton::CheckAllRings(config, graph, options)
                                  : baton::Run(config, graph, options);
}
