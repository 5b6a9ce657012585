#include "kernels/task_graph/ring_schedule.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

constexpr int kPageTokens = 64;
constexpr int kPageGroup = 4;   // Attention takes the keys of so many pages, then their values.
constexpr int kBlockRows = 8;   // Gate rows of a block, with as many up rows.
constexpr int kRowStride = 37;  // Attention's tasks are rotated by this a row.
constexpr int kStepWidth = 16;  // Columns of one k-step.
constexpr int kMostSteps = 64;  // K-steps of a chunk.

// K-steps a chunk of a run of `steps`: as many as fit, evened out, in eights where eight fit.
int ChunkSteps(int slot_bytes, int step_bytes, int steps) {
  if (steps <= kMostSteps && steps * step_bytes <= slot_bytes) return steps;
  const int fit = std::min(slot_bytes / step_bytes, kMostSteps);
  if (fit < 8) return std::max(fit, 1);
  const int chunks = (steps + fit / 8 * 8 - 1) / (fit / 8 * 8);
  return ((steps + chunks - 1) / chunks + 7) / 8 * 8;
}

// Lists one worker's chunks.
class ChunkLister {
 public:
  ChunkLister(const ModelConfig& config, const TaskGraph& graph, int worker, const StepLoad& load,
              int slot_bytes)
      : config_(config), graph_(graph), worker_(worker), load_(load), slot_bytes_(slot_bytes) {}

  std::vector<RingChunk> List() {
    const absl::Span<const Task> tasks = graph_.tasks(worker_);
    for (size_t i = 0; i < tasks.size(); ++i) {
      task_ = static_cast<int>(i);
      AddTask(tasks[i]);
    }
    return std::move(chunks_);
  }

 private:
  void AddTask(const Task& task) {
    const GraphShape& shape = graph_.shape();
    switch (task.op) {
      case OpKind::kRouter:
      case OpKind::kQkvRope:
      case OpKind::kLmHead:
        return AddTiles(task, shape.hidden);
      case OpKind::kOutputProj:
        return AddTiles(task, shape.merged_width);
      case OpKind::kGateUp:
        return AddGateUp(task);
      case OpKind::kDown:
        return AddDown(task);
      case OpKind::kAttention:
        return AddAttention(task);
      default:
        return;
    }
  }

  // A tile of `rows` rows of `width` columns.
  void AddTile(ChunkQueue queue, int64_t rows, int64_t width) {
    const int step_bytes = static_cast<int>(rows) * kStepWidth * 2;
    const int steps = static_cast<int>((width + kStepWidth - 1) / kStepWidth);
    const int each = ChunkSteps(slot_bytes_, step_bytes, steps);
    for (int done = 0; done < steps; done += each) {
      const int count = std::min(each, steps - done);
      chunks_.push_back({task_, queue, static_cast<uint32_t>(count * step_bytes)});
    }
  }

  // Tiles of two units, the last of one where their number is odd.
  void AddTiles(const Task& task, int64_t width) {
    for (uint32_t unit = task.begin; unit < task.end; unit += 2)
      AddTile(ChunkQueue::kStatic, TileRows(task, unit), width);
  }

  static int64_t TileRows(const Task& task, uint32_t unit) {
    return int64_t{std::min<uint32_t>(2, task.end - unit)} * kUnitRows;
  }

  void AddGateUp(const Task& task) {
    const int active = load_.active_experts;
    const int slices = task.part == kAlwaysActive ? 1
                                                  : ExpertPartBegin(active, task.part + 1) -
                                                        ExpertPartBegin(active, task.part);
    for (int slice = 0; slice < slices; ++slice) {
      for (uint32_t row = task.begin; row < task.end; row += kBlockRows) {
        const int64_t rows = std::min<uint32_t>(kBlockRows, task.end - row);
        AddTile(ChunkQueue::kRouted, 2 * rows, graph_.shape().hidden);
      }
    }
  }

  void AddDown(const Task& task) {
    const LayerShape& layer = graph_.shape().layers[task.layer];
    for (uint32_t unit = task.begin; unit < task.end; unit += 2) {
      const int64_t rows = TileRows(task, unit);
      for (int slice = 0; layer.sparse && slice < load_.active_experts; ++slice)
        AddTile(ChunkQueue::kRouted, rows, layer.expert_rows);
      if (layer.always_rows > 0) AddTile(ChunkQueue::kRouted, rows, layer.always_rows);
    }
  }

  void AddAttention(const Task& task) {
    const int workers = graph_.worker_count(), most_splits = workers / config_.kv_heads;
    if (most_splits == 0) return;
    const uint32_t tile_bytes = kPageTokens * config_.head_dim * 2;
    for (size_t row = 0; row < load_.contexts.size(); ++row) {
      const int position = load_.contexts[row];
      const int low =
          config_.layers[task.layer].sliding ? std::max(0, position - config_.window_keys + 1) : 0;
      if (position <= low) continue;
      const int first = low / kPageTokens, pages = (position - 1) / kPageTokens - first + 1;
      const int each = (pages + most_splits - 1) / most_splits;
      const int splits = (pages + each - 1) / each;
      const int shift = static_cast<int>(row) * kRowStride % workers;
      const int index = (worker_ - shift + workers) % workers;
      if (index >= splits * config_.kv_heads) continue;
      const int split = index / config_.kv_heads;
      const int mine = std::min(each, pages - split * each);
      bool begins = true;
      for (int done = 0; done < mine; done += kPageGroup) {
        for (int i = 2 * std::min(kPageGroup, mine - done); i > 0; --i) {
          chunks_.push_back({task_, ChunkQueue::kKv, tile_bytes, begins});
          begins = false;
        }
      }
    }
  }

  const ModelConfig& config_;
  const TaskGraph& graph_;
  const int worker_;
  const StepLoad& load_;
  const int slot_bytes_;
  int task_ = 0;
  std::vector<RingChunk> chunks_;
};

}  // namespace

RingSchedule RingSchedule::Of(const ModelConfig& config, const TaskGraph& graph, int worker,
                              const StepLoad& load, int slot_bytes) {
  const absl::Span<const Task> tasks = graph.tasks(worker);
  return RingSchedule({tasks.begin(), tasks.end()},
                      ChunkLister(config, graph, worker, load, slot_bytes).List());
}

RingSchedule::RingSchedule(std::vector<Task> tasks, std::vector<RingChunk> chunks)
    : tasks_(std::move(tasks)), chunks_(std::move(chunks)) {}

uint64_t RingSchedule::bytes() const {
  uint64_t bytes = 0;
  for (const RingChunk& chunk : chunks_) bytes += chunk.bytes;
  return bytes;
}

}  // namespace baton
