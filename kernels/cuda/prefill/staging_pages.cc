#include "kernels/cuda/prefill/staging_pages.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::prefill {
namespace {

void Take(uint32_t count, FreePages& free, std::vector<PageId>& pages) {
  const std::vector<PageId> taken = free.Take(count);
  pages.insert(pages.end(), taken.begin(), taken.end());
}

}  // namespace

StagingLimits StagingLimitsFor(const StagingCounts& counts) {
  const uint32_t ring = WindowPagesFor(std::numeric_limits<uint32_t>::max(), counts.window_keys,
                                       static_cast<uint32_t>(counts.max_chunk_tokens));
  // Packed prompts end within their chunk, but for one that goes on in the next.
  const uint32_t packed =
      FullPagesFor(counts.max_chunk_tokens) + static_cast<uint32_t>(counts.max_segments);
  return {.full_pages = FullPagesFor(counts.max_tokens) + packed,
          .window_pages = 2 * ring + packed};
}

StagingPages::StagingPages(const KvLayout& layout, int max_chunk_tokens)
    : has_full_(layout.groups[kFullGroup].layer_count > 0),
      has_window_(layout.groups[kWindowGroup].layer_count > 0),
      window_keys_(layout.window_keys),
      max_chunk_tokens_(static_cast<uint32_t>(max_chunk_tokens)),
      free_full_(0, layout.groups[kFullGroup].page_count),
      free_window_(0, layout.groups[kWindowGroup].page_count) {}

absl::StatusOr<const KvPageTable*> StagingPages::Extend(uint64_t sequence_id, int end, bool last) {
  const auto at = tables_.find(sequence_id);
  const uint32_t held = at == tables_.end() ? 0 : at->second.full.size();
  const uint32_t wanted = has_full_ ? std::max(FullPagesFor(end), held) - held : 0;
  uint32_t ring = 0;
  if (has_window_ && at == tables_.end()) {
    ring = WindowPagesFor(last ? end : std::numeric_limits<uint32_t>::max(), window_keys_,
                          max_chunk_tokens_);
  }
  if (wanted > free_full_.size() || ring > free_window_.size()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "local pages for a prompt on another GPU's arena: wanted ", wanted, " full and ", ring,
        " window pages, found ", free_full_.size(), " and ", free_window_.size(), " free"));
  }
  KvPageTable& table = tables_[sequence_id];
  Take(wanted, free_full_, table.full);
  Take(ring, free_window_, table.window);
  return &table;
}

void StagingPages::End(uint64_t sequence_id) {
  const auto at = tables_.find(sequence_id);
  if (at == tables_.end()) return;
  for (const PageId page : at->second.full) free_full_.Give(page);
  for (const PageId page : at->second.window) free_window_.Give(page);
  tables_.erase(at);
}

}  // namespace baton::prefill
