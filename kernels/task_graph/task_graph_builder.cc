#include "kernels/task_graph/task_graph_builder.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "common/check.h"

namespace baton {

UnitRange OwnedUnits(uint32_t unit_count, int worker, int worker_count) {
  const auto at = [&](int index) {
    return static_cast<uint32_t>(uint64_t{unit_count} * index / worker_count);
  };
  return {at(worker), at(worker + 1)};
}

TaskGraphBuilder::TaskGraphBuilder(const GraphShape& shape, int worker_count)
    : shape_(shape), worker_count_(worker_count), lists_(worker_count) {
  BATON_CHECK(worker_count >= 1 && worker_count < 1024);
  BATON_CHECK(CounterCount(shape.layer_count()) < kNoCounter);
}

UnitRange TaskGraphBuilder::Owned(uint32_t unit_count, int worker) const {
  return OwnedUnits(unit_count, worker, worker_count_);
}

TaskWait TaskGraphBuilder::WaitOn(CounterKind kind, int layer) const {
  return {CounterId(kind, layer, shape_.layer_count()), 0};
}

uint16_t TaskGraphBuilder::Signal(CounterKind kind, int layer) const {
  return CounterId(kind, layer, shape_.layer_count());
}

std::vector<std::vector<Task>> TaskGraphBuilder::Build() {
  const int layer_count = shape_.layer_count();
  const auto copy = static_cast<uint16_t>(layer_count % kBufferCopies);
  for (int worker = 0; worker < worker_count_; ++worker) {
    const UnitRange hidden = Owned(shape_.hidden_units, worker);
    if (hidden.empty()) continue;
    Add(worker, {.op = OpKind::kEmbed,
                 .begin = hidden.begin,
                 .end = hidden.end,
                 .signal = Signal(CounterKind::kX, 0)});
  }
  for (int layer = 0; layer < layer_count; ++layer) AddLayer(layer);
  for (int worker = 0; worker < worker_count_; ++worker) {
    const UnitRange vocab = Owned(shape_.vocab_units, worker);
    if (!vocab.empty()) {
      Add(worker, {.op = OpKind::kLmHead,
                   .layer = static_cast<uint16_t>(layer_count),
                   .begin = vocab.begin,
                   .end = vocab.end,
                   .waits = {WaitOn(CounterKind::kX, layer_count)},
                   .signal = Signal(CounterKind::kHead, layer_count),
                   .buffer_epoch = copy});
    }
    Add(worker, {.op = OpKind::kSample,
                 .layer = static_cast<uint16_t>(layer_count),
                 .waits = {WaitOn(CounterKind::kHead, layer_count)},
                 .signal = Signal(CounterKind::kStep, layer_count),
                 .buffer_epoch = copy});
  }
  DeriveThresholds();
  return std::move(lists_);
}

void TaskGraphBuilder::AddLayer(int layer) {
  const LayerShape& shape = shape_.layers[layer];
  const std::vector<UnitRange> router = RouterRanges(layer);
  for (int worker = 0; worker < worker_count_; ++worker) {
    const auto add = [&](OpKind op, UnitRange range, std::array<TaskWait, 2> waits,
                         uint16_t signal) {
      Add(worker, {.op = op,
                   .layer = static_cast<uint16_t>(layer),
                   .begin = range.begin,
                   .end = range.end,
                   .waits = {waits[0], waits[1]},
                   .signal = signal,
                   .buffer_epoch = static_cast<uint16_t>(layer % kBufferCopies)});
    };
    const UnitRange hidden = Owned(shape_.hidden_units, worker);
    const UnitRange qkv = Owned(shape_.qkv_units, worker);
    if (!router[worker].empty()) {
      add(OpKind::kRouter, router[worker], {WaitOn(CounterKind::kX, layer)},
          Signal(CounterKind::kRouter, layer));
    }
    if (!qkv.empty()) {
      add(OpKind::kQkvRope, qkv, {WaitOn(CounterKind::kX, layer)},
          Signal(CounterKind::kQkv, layer));
    }
    // Where one group of threads walks the whole list, work hides the hops: the experts, or the
    // dense network, stand between QkvRope and Attention, a shared expert before the merge.
    AddGateUp(worker, layer, shape.sparse ? kRoutedExperts : kAlwaysActive);
    add(OpKind::kAttention, {}, {WaitOn(CounterKind::kQkv, layer)},
        Signal(CounterKind::kPartial, layer));
    if (shape.sparse) AddGateUp(worker, layer, kAlwaysActive);
    add(OpKind::kAttentionMerge, {}, {WaitOn(CounterKind::kPartial, layer)},
        Signal(CounterKind::kMerged, layer));
    if (hidden.empty()) continue;
    // What is there first is multiplied first: keys of a window are attended to before the experts
    // are through, all keys after.
    const auto output = [&](uint16_t signal) {
      add(OpKind::kOutputProj, hidden, {WaitOn(CounterKind::kMerged, layer)}, signal);
    };
    const auto down = [&](uint16_t signal) {
      add(OpKind::kDown, hidden, {WaitOn(CounterKind::kHidden, layer)}, signal);
    };
    const uint16_t x = Signal(CounterKind::kX, layer + 1);
    if (shape.sliding) {
      output(kNoCounter);
      down(x);
    } else {
      down(kNoCounter);
      output(x);
    }
  }
}

void TaskGraphBuilder::AddGateUp(int worker, int layer, uint8_t part) {
  const LayerShape& shape = shape_.layers[layer];
  const bool always = part == kAlwaysActive;
  const UnitRange range = Owned(always ? shape.always_rows : shape.expert_rows, worker);
  if (range.empty()) return;
  // A worker signals hidden once, with the last of its GateUp tasks in the layer.
  const bool last = always || Owned(shape.always_rows, worker).empty();
  Add(worker, {.op = OpKind::kGateUp,
               .part = part,
               .layer = static_cast<uint16_t>(layer),
               .begin = range.begin,
               .end = range.end,
               .waits = {WaitOn(CounterKind::kX, layer),
                         always ? TaskWait{} : WaitOn(CounterKind::kRouter, layer)},
               .signal = last ? Signal(CounterKind::kHidden, layer) : kNoCounter,
               .buffer_epoch = static_cast<uint16_t>(layer % kBufferCopies)});
}

uint64_t TaskGraphBuilder::LayerWork(int worker, int layer) const {
  const LayerShape& shape = shape_.layers[layer];
  const uint64_t expert_rows = Owned(shape.expert_rows, worker).size();
  const uint64_t always_rows = Owned(shape.always_rows, worker).size();
  const uint64_t hidden_rows = uint64_t{Owned(shape_.hidden_units, worker).size()} * kUnitRows;
  const uint64_t qkv_rows = uint64_t{Owned(shape_.qkv_units, worker).size()} * kUnitRows;
  const uint64_t ffn_width = uint64_t{shape.expert_rows} * shape.active_experts + shape.always_rows;
  return qkv_rows * shape_.hidden +
         2 * (expert_rows * shape.active_experts + always_rows) * shape_.hidden +
         hidden_rows * (shape_.merged_width + ffn_width);
}

std::vector<UnitRange> TaskGraphBuilder::RouterRanges(int layer) const {
  std::vector<UnitRange> ranges(worker_count_);
  const uint32_t unit_count = shape_.layers[layer].router_units;
  std::vector<int> by_work(worker_count_);
  std::iota(by_work.begin(), by_work.end(), 0);
  // QkvRope comes right after: whose ends last everybody's attention waits for.
  std::vector<std::pair<uint32_t, uint64_t>> work(worker_count_);
  for (int worker = 0; worker < worker_count_; ++worker)
    work[worker] = {Owned(shape_.qkv_units, worker).size(), LayerWork(worker, layer)};
  std::stable_sort(by_work.begin(), by_work.end(), [&](int a, int b) { return work[a] < work[b]; });
  uint32_t begin = 0;
  for (int rank = 0; rank < worker_count_; ++rank) {
    // The remainder goes to the first ranks.
    const uint32_t size = unit_count / worker_count_ +
                          (static_cast<uint32_t>(rank) < unit_count % worker_count_ ? 1 : 0);
    ranges[by_work[rank]] = {begin, begin + size};
    begin += size;
  }
  return ranges;
}

void TaskGraphBuilder::DeriveThresholds() {
  std::vector<uint16_t> producers(CounterCount(shape_.layer_count()), 0);
  for (const std::vector<Task>& list : lists_) {
    for (const Task& task : list) {
      if (task.signal != kNoCounter) ++producers[task.signal];
    }
  }
  for (std::vector<Task>& list : lists_) {
    for (Task& task : list) {
      for (TaskWait& wait : task.waits) {
        if (wait.counter != kNoCounter) wait.producers = producers[wait.counter];
      }
    }
  }
}

}  // namespace baton
