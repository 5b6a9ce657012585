#include "kernels/cuda/prefill/push_plan.h"

#include <algorithm>

namespace baton::prefill {
namespace {

// On two H200s a command costs 2.5 us, after which 380 GB/s flow; a kernel, which waits for
// multiprocessors under compute, reached 115 GB/s. The two meet at copies of 0.41 MB.
constexpr uint64_t kLeastEngineBytes = uint64_t{512} << 10;

}  // namespace

std::vector<PageRun> PlanPageRuns(const std::vector<PageId>& from, const std::vector<PageId>& to,
                                  int first, int last) {
  std::vector<PageRun> runs;
  if (from.empty() || to.empty()) return runs;
  for (int logical = first; logical <= last; ++logical) {
    const PageId source = from[logical % from.size()];
    const PageId target = to[logical % to.size()];
    if (!runs.empty() && runs.back().from + runs.back().count == source &&
        runs.back().to + runs.back().count == target) {
      ++runs.back().count;
    } else {
      runs.push_back(PageRun{source, target, 1});
    }
  }
  return runs;
}

int FirstVisiblePage(int position, uint32_t window_keys) {
  return std::max<int64_t>(0, int64_t{position} - window_keys + 1) / kPageTokens;
}

std::vector<std::vector<LayerRun>> PlanLayerRuns(
    const std::vector<uint8_t>& layer_group, const std::array<uint64_t, kKvGroupCount>& layer_bytes,
    uint64_t least_bytes) {
  std::vector<std::vector<LayerRun>> due(layer_group.size());
  std::array<LayerRun, kKvGroupCount> waiting;
  const size_t count = layer_group.size();
  for (size_t layer = 0; layer < count; ++layer) {
    const uint8_t own = layer_group[layer];
    if (waiting[own].count == 0) waiting[own].first = static_cast<int>(layer);
    ++waiting[own].count;
    for (uint8_t group = 0; group < kKvGroupCount; ++group) {
      LayerRun& run = waiting[group];
      if (run.count == 0 || layer_bytes[group] == 0) continue;
      const bool enough = group == own && run.count * layer_bytes[group] >= least_bytes;
      if (!enough && layer + 2 < count) continue;
      due[layer].push_back(run);
      run = {};
    }
  }
  return due;
}

bool EngineIsFaster(const GroupBytes& group, uint64_t least_bytes) {
  const uint64_t all = group.layer_count * group.layer_bytes;
  const uint64_t together = std::min(all, std::max(least_bytes, group.layer_bytes));
  return group.run_count * kLeastEngineBytes <= together || group.run_count == 1;
}

}  // namespace baton::prefill
