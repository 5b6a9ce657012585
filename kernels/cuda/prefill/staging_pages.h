// StagingPages: which pages of the local workspace belong to which prompt, while prompts are
// computed for an arena on another GPU. Pure bookkeeping; one owner thread.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "kernels/kv/free_pages.h"
#include "kernels/kv/kv_layout.h"

namespace baton::prefill {

struct StagingLimits {
  uint32_t full_pages = 0;
  uint32_t window_pages = 0;
};

// Page counts for one prompt of max_tokens beside packed prompts that fill a chunk.
struct StagingCounts {
  int max_tokens = 0;
  uint32_t window_keys = 0;
  int max_chunk_tokens = 0;
  int max_segments = 0;
};
StagingLimits StagingLimitsFor(const StagingCounts& counts);

class StagingPages {
 public:
  // Of a workspace of `layout`: no pages of a group without layers.
  StagingPages(const KvLayout& layout, int max_chunk_tokens);

  bool Holds(uint64_t sequence_id) const { return tables_.contains(sequence_id); }
  // Pages for the positions before `end`; a prompt's first call fixes its window ring, which is
  // smaller if `last`: the prompt ends there. Valid until its End. ResourceExhausted, with
  // wanted and free pages: nothing changes.
  absl::StatusOr<const KvPageTable*> Extend(uint64_t sequence_id, int end, bool last);
  void End(uint64_t sequence_id);  // Unknown ids are ignored.

  size_t sequence_count() const { return tables_.size(); }

 private:
  const bool has_full_;
  const bool has_window_;
  const uint32_t window_keys_;
  const uint32_t max_chunk_tokens_;
  FreePages free_full_;
  FreePages free_window_;
  std::map<uint64_t, KvPageTable> tables_;
};

}  // namespace baton::prefill
