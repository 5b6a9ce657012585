#include "services/decode/batch_scheduler.h"

#include <algorithm>

namespace baton {

BatchPlan PlanBatch(const BatchView& view, const BatchLimits& limits) {
  BatchPlan plan;
  const size_t join_count = std::min(view.ready.size(), view.free_slots.size());
  for (size_t i = 0; i < join_count; ++i) {
    plan.join.push_back({.id = view.ready[i], .slot = view.free_slots[i]});
  }

  uint32_t full_pages = view.free_full_pages;
  uint32_t window_pages = view.free_window_pages;
  uint32_t prefills = view.prefilling_count;
  // Rows taken now or promised to a sequence whose prefill is running or done.
  uint32_t rows =
      view.running_count + view.prefilling_row_count + static_cast<uint32_t>(view.ready.size());
  for (const WaitingSequence& sequence : view.waiting) {
    if (sequence.needs_prefill && prefills >= limits.max_prefills) break;
    if (sequence.needs_row && rows >= limits.max_rows) break;
    if (sequence.full_pages > full_pages || sequence.window_pages > window_pages) break;
    plan.admit.push_back(sequence.id);
    full_pages -= sequence.full_pages;
    window_pages -= sequence.window_pages;
    prefills += sequence.needs_prefill ? 1 : 0;
    rows += sequence.needs_row ? 1 : 0;
  }
  return plan;
}

}  // namespace baton
