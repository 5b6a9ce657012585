// How many pages a decode worker's arena gets. Pure arithmetic over a layout.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/kv/kv_layout.h"

namespace baton {

struct ArenaBudget {
  uint64_t memory_bytes = 0;
  uint32_t max_rows = 0;
  uint32_t max_prefills = 0;
  uint32_t chunk_tokens = 0;        // Longest prefill chunk.
  uint32_t max_context_tokens = 0;  // Longest sequence.
};

struct ArenaPageCounts {
  uint32_t full_pages = 0;  // Each group's scratch page included.
  uint32_t window_pages = 0;
};

// Splits the memory between the groups of `shape` (page counts of which are ignored): window layers
// get what max_rows sequences and max_prefills prefills need, at most half of the memory; the rest
// goes to full-attention layers, at most what max_rows sequences of max_context_tokens can use.
// InvalidArgument, with the bytes wanted and found, when not even one sequence of one page fits.
absl::StatusOr<ArenaPageCounts> PlanArena(const KvLayout& shape, const ArenaBudget& budget);

// The longest sequence, in tokens, whose pages an otherwise empty arena can hold.
uint32_t LongestSequence(const KvLayout& layout, uint32_t chunk_tokens);

}  // namespace baton
