#include <algorithm>

#include "kernels/cpu/ops/ops.h"

namespace baton {
namespace {

enum class Projection { kQuery, kKey, kValue };

// The part of one projection's rows that the task owns.
struct Part {
  Projection projection;
  int64_t first = 0;  // Within the projection.
  int64_t count = 0;
};

// Rotates the interleaved pairs (2i, 2i + 1) of values [count], which start at row `first` of their
// projection.
void Rotate(WorkerContext& context, int row, const Part& part, float* values) {
  const int head_dim = context.config().head_dim;
  const float* cosines = context.Cosines(row);
  const float* sines = context.Sines(row);
  for (int64_t i = 0; i < part.count; i += 2) {
    const int64_t pair = (part.first + i) % head_dim / 2;
    const float even = values[i];
    const float odd = values[i + 1];
    values[i] = context.model().Round(even * cosines[pair] - odd * sines[pair]);
    values[i + 1] = context.model().Round(odd * cosines[pair] + even * sines[pair]);
  }
}

// Puts finished values of a row where attention finds them.
void Publish(WorkerContext& context, int layer, int row, const Part& part, const float* values) {
  StepBuffers& buffers = context.buffers();
  if (part.projection == Projection::kQuery) {
    std::copy_n(values, part.count, buffers.query(row) + part.first);
    return;
  }
  const bool is_v = part.projection == Projection::kValue;
  std::copy_n(values, part.count,
              (is_v ? buffers.new_value(row) : buffers.new_key(row)) + part.first);
  const int head_dim = context.config().head_dim;
  const StepRow& step_row = context.plan().rows[row];
  const KvView& kv = context.plan().kv;
  for (int64_t i = 0; i < part.count; ++i) {
    const auto head = static_cast<int>((part.first + i) / head_dim);
    std::byte* vector = kv.At(*step_row.pages, layer, step_row.position, is_v, head);
    kv.Store(vector, static_cast<int>((part.first + i) % head_dim), values[i]);
  }
}

void RunPart(WorkerContext& context, const Task& task, const Part& part) {
  const CpuModel& model = context.model();
  const LayerWeights& weights = model.weights().layers[task.layer];
  const auto& normed = context.Normed(task.layer, task.buffer_epoch);
  std::vector<float>& values = context.scratch(0);
  values.resize(size_t(context.row_count()) * part.count);
  auto& outputs = context.outputs();
  outputs.clear();
  for (int row = 0; row < context.row_count(); ++row) {
    outputs.push_back(&values[size_t(row) * part.count]);
  }
  const TensorView& matrix = part.projection == Projection::kQuery ? weights.q
                             : part.projection == Projection::kKey ? weights.k
                                                                   : weights.v;
  model.Multiply({.matrix = matrix,
                  .first = part.first,
                  .count = part.count,
                  .inputs = normed,
                  .outputs = outputs});
  const bool rotate =
      context.config().layers[task.layer].rope && part.projection != Projection::kValue;
  for (int row = 0; row < context.row_count(); ++row) {
    for (int64_t i = 0; i < part.count; ++i) outputs[row][i] = model.Round(outputs[row][i]);
    if (rotate) Rotate(context, row, part, outputs[row]);
    Publish(context, task.layer, row, part, outputs[row]);
  }
}

}  // namespace

void RunQkvRope(WorkerContext& context, const Task& task) {
  const ModelConfig& config = context.config();
  const int64_t query_rows = int64_t{config.query_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.kv_heads} * config.head_dim;
  const OwnedRows owned = RowsOf(task, query_rows + 2 * kv_rows, kUnitRows);
  const struct {
    Projection projection;
    int64_t first, last;
  } projections[] = {{Projection::kQuery, 0, query_rows},
                     {Projection::kKey, query_rows, query_rows + kv_rows},
                     {Projection::kValue, query_rows + kv_rows, query_rows + 2 * kv_rows}};
  for (const auto& [projection, first, last] : projections) {
    const int64_t begin = std::max(owned.first, first);
    const int64_t end = std::min(owned.last, last);
    if (begin < end) RunPart(context, task, {projection, begin - first, end - begin});
  }
}

}  // namespace baton
