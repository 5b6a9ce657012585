// Predicts decode steps of North Mini Code on an H200 without one:
//   decode_simulation [--workers N] [--check-rings 1]
// A line for each batch size and routing that was measured; or, for each, whether a worker's ring
// can stop in any state.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/models/north_geometry.h"
#include "kernels/task_graph/ring_rules.h"
#include "kernels/task_graph/step_simulator.h"

namespace baton {
namespace {

struct Point {
  int batch;
  int context;
  int pool;            // Experts that routing draws from.
  double measured_ms;  // On an H200, random weights: tests/bench/RESULTS.md.
};
constexpr Point kPoints[] = {{1, 8192, 128, 2.70},  {4, 8192, 128, 5.72},  {8, 8192, 27, 6.57},
                             {8, 8192, 128, 8.98},  {16, 8192, 128, 17.3}, {32, 8192, 128, 44.4},
                             {1, 131072, 128, 3.72}};

// Slots as the kernel has them: fewer and smaller where more rows are kept in shared memory.
RingShape RingFor(int rows) {
  if (rows <= 8) return RingShape::Of(6, 24576);
  if (rows <= 16) return RingShape::Of(4, 24576);
  return RingShape::Of(rows <= 24 ? 6 : 3, 16384);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "decode_simulation: %s\n", status.ToString().c_str());
  return 1;
}

int Run(const ModelConfig& config, const TaskGraph& graph) {
  std::printf("%5s %8s %8s %9s %9s %7s %9s | %6s %6s %7s %6s %6s\n", "batch", "context", "experts",
              "ms/step", "measured", "error", "stream ms", "busy", "memory", "routing", "join",
              "other");
  for (const Point& point : kPoints) {
    const StepLoad load{.contexts = std::vector<int>(point.batch, point.context),
                        .active_experts = ExpectedDistinctExperts(point.batch, 8, point.pool)};
    const auto predicted = PredictStep(config, graph, load, RingFor(point.batch));
    if (!predicted.ok()) return Fail(predicted.status());
    const double ms = predicted->step_us * 1e-3;
    std::printf(
        "%5d %8d %8d %9.3f %9.2f %+6.1f%% %9.3f | %5.1f%% %5.1f%% %6.1f%% %5.1f%% %5.1f%%\n",
        point.batch, point.context, load.active_experts, ms, point.measured_ms,
        (ms / point.measured_ms - 1) * 100, predicted->stream_us * 1e-3, predicted->busy * 100,
        predicted->wait_memory * 100, predicted->wait_routing * 100, predicted->wait_join * 100,
        predicted->wait_other * 100);
  }
  return 0;
}

// Walks every state of every worker's ring at the same points.
int CheckAllRings(const ModelConfig& config, const TaskGraph& graph) {
  for (const Point& point : kPoints) {
    const StepLoad load{.contexts = std::vector<int>(point.batch, point.context),
                        .active_experts = ExpectedDistinctExperts(point.batch, 8, point.pool)};
    const absl::Status status = CheckRings(config, graph, load, RingFor(point.batch));
    if (!status.ok()) return Fail(status);
    std::printf("batch %d, context %d, %d experts: the ring stops in no state\n", point.batch,
                point.context, load.active_experts);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  int workers = 132;
  bool check_rings = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--workers") == 0) workers = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--check-rings") == 0) check_rings = std::atoi(argv[i + 1]) != 0;
  }
  const baton::ModelConfig config = baton::NorthMiniCodeGeometry();
  const baton::TaskGraph graph = baton::TaskGraph::Build(config, workers);
  return check_rings ? baton::CheckAllRings(config, graph) : baton::Run(config, graph);
}
