// BatchScheduler: what the decode engine does before the next step. A pure function of the queues,
// free rows and free pages; no threads, no time, no device.
//
// Rules: waiting sequences are admitted in order of arrival and never overtake each other, so a
// long prompt cannot starve. A sequence is admitted when all its pages are free, when a row will be
// there for it after prefill, and when fewer than max_prefills prefills are running (one whose
// prompt goes through decode rows needs no prefill).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace baton {

using SequenceId = uint64_t;

struct WaitingSequence {
  SequenceId id = 0;
  uint32_t full_pages = 0;  // Needed, for prompt and completion.
  uint32_t window_pages = 0;
  bool needs_row = true;      // False if the first token is also the last.
  bool needs_prefill = true;  // False if its prompt goes through its row of the decode batch.
};

struct BatchView {
  absl::Span<const WaitingSequence> waiting;  // Oldest first.
  absl::Span<const SequenceId> ready;         // Prefilled, oldest first.
  absl::Span<const int> free_slots;           // Rows that can take a sequence in the next step.
  uint32_t free_full_pages = 0;
  uint32_t free_window_pages = 0;
  uint32_t prefilling_count = 0;      // Prefills running.
  uint32_t prefilling_row_count = 0;  // Those of them that will need a row.
  uint32_t running_count = 0;         // Rows taken, leaving ones included.
};

struct BatchLimits {
  uint32_t max_rows = 0;
  uint32_t max_prefills = 0;
};

struct PlannedJoin {
  SequenceId id = 0;
  int slot = 0;
  bool operator==(const PlannedJoin&) const = default;
};

struct BatchPlan {
  std::vector<SequenceId> admit;  // Reserve pages and start prefill, in this order.
  std::vector<PlannedJoin> join;  // Rows that join at the next step.
};

BatchPlan PlanBatch(const BatchView& view, const BatchLimits& limits);

}  // namespace baton
