#include "kernels/cuda/decode/decode_row_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/decode/decode_params.h"

namespace baton::cuda {
namespace {

absl::Status Bad(const RowJoin& join, const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat("join of row ", join.row_id, ": ", text));
}

absl::Status CheckNumbers(const RowJoin& join, const RowLimits& limits) {
  if (join.slot < 0 || join.slot >= limits.max_rows)
    return Bad(join,
               absl::StrCat("slot: wanted 0 to ", limits.max_rows - 1, ", found ", join.slot));
  if (join.token < 0 || join.token >= limits.vocab)
    return Bad(join, absl::StrCat("token: wanted 0 to ", limits.vocab - 1, ", found ", join.token));
  if (join.position < 0 || join.max_new_tokens < 1)
    return Bad(join,
               absl::StrCat("wanted a position of at least 0 and at least 1 new token, found ",
                            join.position, " and ", join.max_new_tokens));
  if (join.stop_ids.size() > kMaxStops)
    return Bad(join, absl::StrCat("stop ids: wanted at most ", kMaxStops, ", found ",
                                  join.stop_ids.size()));
  return absl::OkStatus();
}

absl::Status CheckPageCounts(const RowJoin& join, const RowLimits& limits) {
  const KvLayout& layout = limits.layout;
  const uint64_t tokens = uint64_t(join.position) + join.max_new_tokens;
  const uint32_t full = layout.groups[kFullGroup].layer_count > 0 ? FullPagesFor(tokens) : 0;
  if (full > uint32_t(limits.max_pages))
    return Bad(join, absl::StrCat("sequence: wanted at most ", limits.max_pages * kPageTokens,
                                  " tokens, found ", tokens));
  if (join.pages.full.size() < full)
    return Bad(join, absl::StrCat("full pages: wanted ", full, ", found ", join.pages.full.size()));
  const size_t found = join.pages.window.size();
  if (found > size_t(limits.max_ring))  // With no layer that reads them, too: they are copied.
    return Bad(join,
               absl::StrCat("window pages: wanted at most ", limits.max_ring, ", found ", found));
  if (layout.groups[kWindowGroup].layer_count == 0) return absl::OkStatus();
  const uint32_t ring = WindowPagesFor(tokens, layout.window_keys, 1);
  if (found < ring)
    return Bad(join, absl::StrCat("window pages: wanted ", ring, ", found ", found));
  return absl::OkStatus();
}

absl::Status CheckPageIds(const RowJoin& join, const RowLimits& limits) {
  const auto& groups = limits.layout.groups;
  for (PageId page : join.pages.full) {
    if (page >= groups[kFullGroup].page_count)
      return Bad(join, absl::StrCat("full page ", page, " of an arena of ",
                                    groups[kFullGroup].page_count));
  }
  for (PageId page : join.pages.window) {
    if (page >= groups[kWindowGroup].page_count)
      return Bad(join, absl::StrCat("window page ", page, " of an arena of ",
                                    groups[kWindowGroup].page_count));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRowJoin(const RowJoin& join, const RowLimits& limits) {
  BATON_RETURN_IF_ERROR(CheckNumbers(join, limits));
  BATON_RETURN_IF_ERROR(CheckPageCounts(join, limits));
  return limits.validate_pages ? CheckPageIds(join, limits) : absl::OkStatus();
}

}  // namespace baton::cuda
