// GraphShape: how much of each matrix there is to own, in the units of Task::begin and Task::end.
// Worked out from a ModelConfig alone; plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/models/model_config.h"
#include "kernels/task_graph/task.h"

namespace baton {

// Output rows of one unit of every matrix but gate and up, whose unit is one row of an expert.
inline constexpr int kUnitRows = 8;

// Units that cover `rows` rows; the last may be partial.
inline uint32_t UnitsFor(int64_t rows) {
  return static_cast<uint32_t>((rows + kUnitRows - 1) / kUnitRows);
}

// Values of Task::part for GateUp.
enum GateUpPart : uint8_t {
  kRoutedExperts = 0,  // Those that are active, by id.
  kAlwaysActive = 1,   // The dense network of a dense layer, or the shared expert of a sparse one.
};

struct LayerShape {
  bool sparse = false;
  bool sliding = false;       // Sees a window of keys.
  uint32_t router_units = 0;  // 0 in a dense layer.
  uint32_t expert_rows = 0;   // Rows of one routed expert's gate; 0 in a dense layer.
  uint32_t always_rows = 0;   // Of the dense network or the shared expert; 0 if there is none.
  int active_experts = 0;     // Per row of the batch.
};

struct GraphShape {
  int64_t hidden = 0;
  int64_t qkv_rows = 0;      // Rows of q, k and v one after the other.
  int64_t merged_width = 0;  // Columns of o_proj.
  int64_t vocab = 0;
  int64_t expert_count = 0;
  uint32_t hidden_units = 0;
  uint32_t qkv_units = 0;
  uint32_t vocab_units = 0;
  std::vector<LayerShape> layers;

  static GraphShape Of(const ModelConfig& config);

  int layer_count() const { return static_cast<int>(layers.size()); }
};

// Which counter an op of a layer signals. The last layer signals x of layer `layer_count`.
enum class CounterKind : uint8_t { kX, kRouter, kQkv, kPartial, kMerged, kHidden, kHead, kStep };
inline constexpr int kCountersPerLayer = 6;

inline const char* CounterKindName(CounterKind kind) {
  constexpr const char* kNames[] = {"x",      "router", "qkv",  "partial",
                                    "merged", "hidden", "head", "step"};
  return kNames[static_cast<int>(kind)];
}

// Counters are numbered by layer, so that one layer's share a few cache lines. kX of layer
// `layer_count` is the final x; kHead and kStep take the layer `layer_count` too.
inline uint16_t CounterId(CounterKind kind, int layer, int layer_count) {
  const int first = layer_count * kCountersPerLayer;
  if (kind == CounterKind::kHead) return static_cast<uint16_t>(first + 1);
  if (kind == CounterKind::kStep) return static_cast<uint16_t>(first + 2);
  return static_cast<uint16_t>(layer * kCountersPerLayer + static_cast<int>(kind));
}

// Kind and layer of a counter; the inverse of CounterId.
struct CounterPlace {
  CounterKind kind;
  int layer;
};
inline CounterPlace PlaceOfCounter(int id, int layer_count) {
  const int after = id - layer_count * kCountersPerLayer;
  if (after == 1) return {CounterKind::kHead, layer_count};
  if (after == 2) return {CounterKind::kStep, layer_count};
  return {static_cast<CounterKind>(id % kCountersPerLayer), id / kCountersPerLayer};
}

inline int CounterCount(int layer_count) { return layer_count * kCountersPerLayer + 3; }

}  // namespace baton
