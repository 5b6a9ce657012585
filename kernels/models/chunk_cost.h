// What a prefill chunk will cost on the device. Pure: counts of arithmetic and bytes from the
// model's shape, times rates that a benchmark measured.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/models/model_config.h"

namespace baton {

// A stretch of a prompt: positions [begin, begin + tokens).
struct PromptStretch {
  int64_t begin = 0;
  int64_t tokens = 0;

  bool operator==(const PromptStretch&) const = default;
};

// Multiply-adds count as two operations.
struct ChunkWork {
  double matrix_operations = 0;     // Projections, router, feed-forward networks.
  double attention_operations = 0;  // Over visible keys only.
  double weight_bytes = 0;          // Read at least once a chunk; experts by expected distinct use.
  double activation_bytes = 0;      // Of the memory-bound steps between the products.

  double operations() const { return matrix_operations + attention_operations; }
};
ChunkWork CountChunkWork(const ModelConfig& config, absl::Span<const PromptStretch> stretches);

// Defaults: an H200, fitted to `baton bench prefill` at North Mini Code's geometry, 512 to 32768
// tokens and packed (tests/bench/RESULTS.md): all eight points are met within 5 %. The only table
// of such constants.
struct DeviceRates {
  double matrix_operations_per_second = 592e12;
  double attention_operations_per_second = 495e12;
  double bytes_per_second = 4.55e12;
  double fixed_seconds_per_layer = 134e-6;  // Launches and the ends of waves.
  int multiprocessors = 132;                // That the rates of operations are for.

  // Of a process with so many of them, as under MPS: operations take longer in proportion. With a
  // quarter of an H200 that says 17 % more than was measured.
  DeviceRates WithMultiprocessors(int count) const;
};

// Expected seconds of a chunk. Grows with every added token, and with `begin` up to the window.
double EstimateChunkSeconds(const ModelConfig& config, absl::Span<const PromptStretch> stretches,
                            const DeviceRates& rates = {});

}  // namespace baton
