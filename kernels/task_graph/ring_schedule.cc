#include "kernels/task_graph/ring_schedule.h"

#include <algorithm>
#include <utility>

#include "kernels/task_graph/chunk_steps.h"

namespace baton {
namespace {

constexpr int kPageTokens = 64;
constexpr int kBlockRows = 8;   // Gate rows of a block, with as many up rows.
constexpr int kRowStride = 37;  // Attention's tasks are rotated by this a row.
constexpr int kStepWidth = 16;  // Columns of one k-step.

// Lists one worker's chunks.
class ChunkLister {
 public:
  ChunkLister(const ModelConfig& config, const TaskGraph& graph, int worker, const StepLoad& load,
              int slot_bytes)
      : config_(config), graph_(graph), worker_(worker), load_(load), slot_bytes_(slot_bytes) {
    const absl::Span<const Task> tasks = graph.tasks(worker);
    schedule_.tasks.assign(tasks.begin(), tasks.end());
  }

  RingSchedule List() {
    for (const Task& task : schedule_.tasks) {
      AddTask(task);
      ++task_;
    }
    return std::move(schedule_);
  }

 private:
  void AddTask(const Task& task) {
    const GraphShape& shape = graph_.shape();
    switch (task.op) {
      case OpKind::kRouter:
      case OpKind::kQkvRope:
      case OpKind::kLmHead:
        return AddTiles(task, shape.hidden, kMaxChunkSteps);
      case OpKind::kOutputProj:
        return AddTiles(task, shape.merged_width, kMaxSharedSteps);
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
  void AddTile(int64_t rows, int64_t width, int most) {
    const int step_bytes = static_cast<int>(rows) * kStepWidth * 2;
    const int steps = static_cast<int>((width + kStepWidth - 1) / kStepWidth);
    const int each = ChunkSteps(slot_bytes_, step_bytes, steps, most);
    for (int done = 0; done < steps; done += each) {
      const int count = std::min(each, steps - done);
      schedule_.weights.push_back({task_, static_cast<uint32_t>(count * step_bytes)});
    }
  }

  // Tiles of two units, the last of one where their number is odd.
  void AddTiles(const Task& task, int64_t width, int most) {
    for (uint32_t unit = task.begin; unit < task.end; unit += 2)
      AddTile(TileRows(task, unit), width, most);
  }

  static int64_t TileRows(const Task& task, uint32_t unit) {
    return int64_t{std::min<uint32_t>(2, task.end - unit)} * kUnitRows;
  }

  void AddGateUp(const Task& task) {
    const int slices = task.part == kAlwaysActive ? 1 : load_.active_experts;
    for (int slice = 0; slice < slices; ++slice) {
      for (uint32_t row = task.begin; row < task.end; row += kBlockRows) {
        const int64_t rows = std::min<uint32_t>(kBlockRows, task.end - row);
        AddTile(2 * rows, graph_.shape().hidden, kMaxChunkSteps);
      }
    }
  }

  void AddDown(const Task& task) {
    const LayerShape& layer = graph_.shape().layers[task.layer];
    for (uint32_t unit = task.begin; unit < task.end; unit += 2) {
      const int64_t rows = TileRows(task, unit);
      for (int slice = 0; layer.sparse && slice < load_.active_experts; ++slice)
        AddTile(rows, layer.expert_rows, kMaxSharedSteps);
      if (layer.always_rows > 0) AddTile(rows, layer.always_rows, kMaxSharedSteps);
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
      for (int i = 2 * mine; i > 0; --i) {  // Keys and values.
        schedule_.kv.push_back({task_, tile_bytes, begins});
        begins = false;
      }
    }
  }

  const ModelConfig& config_;
  const TaskGraph& graph_;
  const int worker_;
  const StepLoad& load_;
  const int slot_bytes_;
  int task_ = 0;
  RingSchedule schedule_;
};

}  // namespace

RingSchedule RingSchedule::Of(const ModelConfig& config, const TaskGraph& graph, int worker,
                              const StepLoad& load, const RingShape& ring) {
  return ChunkLister(config, graph, worker, load, ring.weight_slot_bytes).List();
}

uint64_t RingSchedule::bytes() const {
  uint64_t bytes = 0;
  for (const std::vector<RingChunk>* chunks : {&weights, &kv}) {
    for (const RingChunk& chunk : *chunks) bytes += chunk.bytes;
  }
  return bytes;
}

}  // namespace baton
