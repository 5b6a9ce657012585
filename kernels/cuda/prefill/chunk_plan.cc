#include "kernels/cuda/prefill/chunk_plan.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton::prefill {
namespace {

absl::Status CheckPageIds(const std::vector<PageId>& pages, const KvGroupLayout& group,
                          const std::string& which) {
  for (const PageId page : pages) {
    if (page >= group.page_count) {
      return absl::InvalidArgumentError(absl::StrCat(
          which, ": page id ", page, " beyond the arena's ", group.page_count, " pages"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const PrefillSegment& segment, const ChunkLimits& limits,
                         const std::string& which) {
  const int64_t end = int64_t{segment.begin} + int64_t(segment.tokens.size());
  if (segment.begin < 0 || segment.tokens.empty() || end > limits.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat(which, ": positions [", segment.begin, ", ", end,
                                                   "), wanted a non-empty range within [0, ",
                                                   limits.max_positions, ")"));
  }
  for (const TokenId token : segment.tokens) {
    if (token < 0 || token >= limits.vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat(which, ": token id ", token, " outside the vocabulary of ", limits.vocab));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPages(const PrefillSegment& segment, const KvLayout& layout,
                        const std::string& which) {
  if (segment.pages == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(which, ": no page table"));
  }
  const uint64_t end = segment.begin + segment.tokens.size();
  const uint32_t wanted = FullPagesFor(end);
  if (layout.groups[kFullGroup].layer_count > 0 && segment.pages->full.size() < wanted) {
    return absl::InvalidArgumentError(absl::StrCat(which, ": ", end, " tokens need ", wanted,
                                                   " full-attention pages, found ",
                                                   segment.pages->full.size()));
  }
  if (layout.groups[kWindowGroup].layer_count > 0) {
    // Pages in use at once: from the first query's window to the segment's end.
    const uint64_t first_key = segment.begin + 1 > int64_t{layout.window_keys}
                                   ? segment.begin + 1 - layout.window_keys
                                   : 0;
    const uint64_t live = (end - 1) / kPageTokens - first_key / kPageTokens + 1;
    if (segment.pages->window.size() < live) {
      return absl::InvalidArgumentError(
          absl::StrCat(which, ": positions [", segment.begin, ", ", end, ") need a window ring of ",
                       live, " pages, found ", segment.pages->window.size()));
    }
  }
  BATON_RETURN_IF_ERROR(CheckPageIds(segment.pages->full, layout.groups[kFullGroup], which));
  return CheckPageIds(segment.pages->window, layout.groups[kWindowGroup], which);
}

void AppendSegment(const PrefillSegment& segment, const ChunkLimits& limits, ChunkPlan& plan) {
  const int index = static_cast<int>(plan.segments.size());
  const int count = static_cast<int>(segment.tokens.size());
  SegmentPages pages;
  pages.full_begin = static_cast<int>(plan.pages.size());
  plan.pages.insert(plan.pages.end(), segment.pages->full.begin(), segment.pages->full.end());
  pages.window_begin = static_cast<int>(plan.pages.size());
  pages.window_ring = std::max<int>(1, static_cast<int>(segment.pages->window.size()));
  plan.pages.insert(plan.pages.end(), segment.pages->window.begin(), segment.pages->window.end());
  pages.kv_length = segment.begin + count;
  plan.segments.push_back(pages);
  for (int first = 0; first < count; first += limits.tile_tokens) {
    plan.tiles.push_back(AttentionTile{plan.tokens + first,
                                       std::min(limits.tile_tokens, count - first),
                                       segment.begin + first, index});
  }
  for (int i = 0; i < count; ++i) {
    plan.token_ids.push_back(segment.tokens[i]);
    plan.positions.push_back(segment.begin + i);
    plan.token_segment.push_back(index);
  }
  plan.tokens += count;
  if (segment.sample) {
    plan.sample_rows.push_back(plan.tokens - 1);
    plan.sample_segment.push_back(index);
  }
}

}  // namespace

absl::StatusOr<ChunkPlan> PlanChunk(absl::Span<const PrefillSegment> segments,
                                    const KvLayout& layout, const ChunkLimits& limits) {
  BATON_CHECK(limits.tile_tokens > 0);
  if (segments.empty() || segments.size() > size_t(limits.max_segments)) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", segments.size(),
                                                   " segments, wanted 1 to ", limits.max_segments));
  }
  ChunkPlan plan;
  for (size_t i = 0; i < segments.size(); ++i) {
    const std::string which = absl::StrCat("prefill segment ", i);
    BATON_RETURN_IF_ERROR(CheckTokens(segments[i], limits, which));
    BATON_RETURN_IF_ERROR(CheckPages(segments[i], layout, which));
    if (plan.tokens + segments[i].tokens.size() > size_t(limits.max_tokens)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a chunk of more than ", limits.max_tokens, " tokens, the runner's limit"));
    }
    AppendSegment(segments[i], limits, plan);
  }
  std::stable_sort(plan.tiles.begin(), plan.tiles.end(),
                   [](const AttentionTile& a, const AttentionTile& b) {
                     return a.position + a.tokens > b.position + b.tokens;
                   });
  return plan;
}

}  // namespace baton::prefill
