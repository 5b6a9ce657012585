#include "kernels/task_graph/op_contract.h"

#include <utility>

namespace baton {
namespace {

// Fills a contract for one layer; the names are those of op_table.h.
class ContractWriter {
 public:
  ContractWriter(const GraphShape& shape, const Task& task)
      : shape_(shape), layer_(task.layer), copy_(task.buffer_epoch) {}

  ContractWriter& Waits(CounterKind kind) {
    contract_.waits.push_back(CounterId(kind, layer_, shape_.layer_count()));
    return *this;
  }
  ContractWriter& Signals(CounterKind kind, int layer) {
    contract_.signal = CounterId(kind, layer, shape_.layer_count());
    return *this;
  }
  ContractWriter& Signals(CounterKind kind) { return Signals(kind, layer_); }
  ContractWriter& Reads(Buffer buffer) {
    contract_.reads.push_back({buffer, Rotates(buffer) ? copy_ : 0, layer_});
    return *this;
  }
  ContractWriter& Writes(Buffer buffer) {
    contract_.writes.push_back({buffer, Rotates(buffer) ? copy_ : 0, layer_});
    return *this;
  }
  ContractWriter& WritesNextX() {
    contract_.writes.push_back({Buffer::kX, (copy_ + 1) % kBufferCopies, layer_ + 1});
    return *this;
  }
  OpContract Take() { return std::move(contract_); }

 private:
  static bool Rotates(Buffer buffer) {
    return buffer == Buffer::kX || buffer == Buffer::kRouterLogits || buffer == Buffer::kHidden;
  }

  const GraphShape& shape_;
  const int layer_;
  const int copy_;
  OpContract contract_;
};

OpContract GateUpContract(const GraphShape& shape, const Task& task, bool signals_hidden) {
  ContractWriter writer(shape, task);
  writer.Waits(CounterKind::kX).Reads(Buffer::kX);
  if (task.part != kAlwaysActive) {
    writer.Waits(CounterKind::kRouter).Reads(Buffer::kRouterLogits);
  }
  if (signals_hidden) writer.Signals(CounterKind::kHidden);
  return writer.Writes(Buffer::kHidden).Take();
}

// OutputProj and Down: the earlier one keeps its part, the later one adds both to x.
OpContract HiddenContract(const GraphShape& shape, const Task& task) {
  const LayerShape& layer = shape.layers[task.layer];
  const bool down = task.op == OpKind::kDown;
  ContractWriter writer(shape, task);
  if (down) {
    writer.Waits(CounterKind::kHidden).Reads(Buffer::kHidden);
    if (layer.sparse) writer.Reads(Buffer::kRouterLogits);
  } else {
    writer.Waits(CounterKind::kMerged).Reads(Buffer::kMerged);
  }
  if (down != layer.sliding) return writer.Writes(Buffer::kKept).Take();
  writer.Reads(Buffer::kKept).Reads(Buffer::kX);
  return writer.WritesNextX().Signals(CounterKind::kX, task.layer + 1).Take();
}

}  // namespace

OpContract ContractOf(const GraphShape& shape, const Task& task, bool signals_hidden) {
  ContractWriter writer(shape, task);
  switch (task.op) {
    case OpKind::kEmbed:
      return writer.Writes(Buffer::kX).Signals(CounterKind::kX).Take();
    case OpKind::kRouter:
      return writer.Waits(CounterKind::kX)
          .Reads(Buffer::kX)
          .Writes(Buffer::kRouterLogits)
          .Signals(CounterKind::kRouter)
          .Take();
    case OpKind::kQkvRope:
      return writer.Waits(CounterKind::kX)
          .Reads(Buffer::kX)
          .Writes(Buffer::kQkv)
          .Signals(CounterKind::kQkv)
          .Take();
    case OpKind::kGateUp:
      return GateUpContract(shape, task, signals_hidden);
    case OpKind::kAttention:
      return writer.Waits(CounterKind::kQkv)
          .Reads(Buffer::kQkv)
          .Writes(Buffer::kPartial)
          .Signals(CounterKind::kPartial)
          .Take();
    case OpKind::kAttentionMerge:
      return writer.Waits(CounterKind::kPartial)
          .Reads(Buffer::kPartial)
          .Reads(Buffer::kQkv)
          .Writes(Buffer::kMerged)
          .Signals(CounterKind::kMerged)
          .Take();
    case OpKind::kOutputProj:
    case OpKind::kDown:
      return HiddenContract(shape, task);
    case OpKind::kLmHead:
      return writer.Waits(CounterKind::kX)
          .Reads(Buffer::kX)
          .Writes(Buffer::kHead)
          .Signals(CounterKind::kHead)
          .Take();
    case OpKind::kSample:
      return writer.Waits(CounterKind::kHead)
          .Reads(Buffer::kHead)
          .Writes(Buffer::kRowState)
          .Signals(CounterKind::kStep)
          .Take();
  }
  return {};
}

}  // namespace baton
