#include "services/decode/arena_plan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr uint32_t kScratchPageCount = 1;

}  // namespace

absl::StatusOr<ArenaPageCounts> PlanArena(const KvLayout& shape, const ArenaBudget& budget) {
  const KvGroupLayout& full = shape.groups[kFullGroup];
  const KvGroupLayout& window = shape.groups[kWindowGroup];
  ArenaPageCounts counts;
  uint64_t left_bytes = budget.memory_bytes;
  if (window.layer_count > 0) {
    const uint64_t prefill_ring =
        WindowPagesFor(budget.max_context_tokens, shape.window_keys, budget.chunk_tokens);
    const uint64_t decode_ring = WindowPagesFor(budget.max_context_tokens, shape.window_keys, 1);
    const uint64_t wanted =
        kScratchPageCount + budget.max_rows * decode_ring + budget.max_prefills * prefill_ring;
    const uint64_t least = kScratchPageCount + prefill_ring;
    const uint64_t affordable = budget.memory_bytes / 2 / window.page_bytes;
    const uint64_t chosen = std::clamp(affordable, least, std::max(least, wanted));
    if (chosen * window.page_bytes > left_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("KV memory: wanted at least ", least * window.page_bytes,
                       " bytes for one sequence's window layers, found ", budget.memory_bytes));
    }
    counts.window_pages = static_cast<uint32_t>(chosen);
    left_bytes -= chosen * window.page_bytes;
  }
  if (full.layer_count > 0) {
    const uint64_t useful =
        kScratchPageCount + uint64_t{budget.max_rows} * FullPagesFor(budget.max_context_tokens);
    const uint64_t chosen = std::min(useful, left_bytes / full.page_bytes);
    if (chosen < kScratchPageCount + 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("KV memory: wanted at least ", 2 * full.page_bytes,
                       " bytes for full-attention layers, found ", left_bytes));
    }
    counts.full_pages = static_cast<uint32_t>(chosen);
  }
  return counts;
}

uint32_t LongestSequence(const KvLayout& layout, uint32_t chunk_tokens) {
  uint64_t longest = std::numeric_limits<uint32_t>::max();
  const KvGroupLayout& full = layout.groups[kFullGroup];
  if (full.layer_count > 0) {
    longest = uint64_t{full.page_count - kScratchPageCount} * kPageTokens;
  }
  const KvGroupLayout& window = layout.groups[kWindowGroup];
  if (window.layer_count > 0) {
    const uint32_t pages = window.page_count - kScratchPageCount;
    const uint32_t ring = WindowPagesFor(longest, layout.window_keys, chunk_tokens);
    // A ring that is too small for long sequences still holds short ones whole.
    if (ring > pages) longest = std::min(longest, uint64_t{pages} * kPageTokens);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(longest, std::numeric_limits<int32_t>::max()));
}

}  // namespace baton
