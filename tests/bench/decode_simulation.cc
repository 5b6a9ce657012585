// Predicts decode steps of North Mini Code on an H200 without one:
//   decode_simulation [--context N] [--workers N]
// A line for each batch size and routing of tests/bench/RESULTS.md.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/models/model_config.h"
#include "kernels/task_graph/step_simulator.h"

namespace baton {
namespace {

// Facts: the model's config.json.
ModelConfig NorthMiniCode() {
  ModelConfig config{.hidden = 2048,
                     .layer_count = 49,
                     .query_heads = 32,
                     .kv_heads = 4,
                     .head_dim = 128,
                     .vocab = 262144,
                     .expert_count = 128,
                     .experts_per_token = 8,
                     .expert_width = 768};
  config.window_keys = 4096;
  for (int l = 0; l < config.layer_count; ++l) {
    const bool full = l % 4 == 0;
    config.layers.push_back({.sliding = !full,
                             .rope = !full || l == 0,
                             .dense = l == 0,
                             .ffn_width = l == 0 ? 3072 : 768});
  }
  return config;
}

struct Point {
  int batch;
  int pool;  // Experts that routing draws from.
};

int Run(int context, int workers) {
  const ModelConfig config = NorthMiniCode();
  const TaskGraph graph = TaskGraph::Build(config, workers);
  std::printf("%5s %8s %8s %9s %9s %9s | %6s %6s %7s %6s %6s\n", "batch", "context", "experts",
              "ms/step", "tok/s", "stream ms", "busy", "memory", "routing", "join", "other");
  for (const Point& point : {Point{1, 128}, Point{4, 128}, Point{8, 27}, Point{8, 128},
                             Point{16, 128}, Point{32, 128}}) {
    const StepLoad load{.contexts = std::vector<int>(point.batch, context),
                        .active_experts = ExpectedDistinctExperts(point.batch, 8, point.pool)};
    // Slots as the kernel has them: fewer and smaller where more rows are kept in shared memory.
    const RingShape ring = point.batch <= 8 ? RingShape{.slot_count = 6, .slot_bytes = 24576}
                           : point.batch <= 16
                               ? RingShape{.slot_count = 4, .slot_bytes = 24576}
                               : RingShape{.slot_count = 3, .slot_bytes = 16384, .reserve = 2};
    const auto predicted = PredictStep(config, graph, load, ring);
    if (!predicted.ok()) {
      std::fprintf(stderr, "decode_simulation: %s\n", predicted.status().ToString().c_str());
      return 1;
    }
    std::printf("%5d %8d %8d %9.3f %9.1f %9.3f | %5.1f%% %5.1f%% %6.1f%% %5.1f%% %5.1f%%\n",
                point.batch, context, load.active_experts, predicted->step_us * 1e-3,
                point.batch / (predicted->step_us * 1e-6), predicted->stream_us * 1e-3,
                predicted->busy * 100, predicted->wait_memory * 100, predicted->wait_routing * 100,
                predicted->wait_join * 100, predicted->wait_other * 100);
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  int context = 8192, workers = 132;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--context") == 0) context = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--workers") == 0) workers = std::atoi(argv[i + 1]);
  }
  return baton::Run(context, workers);
}
