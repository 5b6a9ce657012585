#include "kernels/kv/kv_lease.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

absl::Status CheckPages(const char* name, const KvPages& pages, const KvGroupLayout& group,
                        PageId scratch) {
  const auto error = [&](auto&&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("lease ", name, " pages: ", parts...));
  };
  if (pages.generations.size() != pages.page_ids.size())
    return error("wanted ", pages.page_ids.size(), " generations, found ",
                 pages.generations.size());
  if (group.layer_count == 0 && !pages.page_ids.empty())
    return error("wanted none (the group has no layers), found ", pages.page_ids.size());
  std::vector<PageId> sorted = pages.page_ids;
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && sorted.back() >= group.page_count)
    return error("wanted ids below ", group.page_count, ", found ", sorted.back());
  if (std::binary_search(sorted.begin(), sorted.end(), scratch))
    return error("wanted no scratch page, found ", scratch);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return error("wanted each page once, found ", *twice, " twice");
  return absl::OkStatus();
}

}  // namespace

uint32_t MaxChunkTokens(const KvLease& lease, const KvArenaDescriptor& arena) {
  const uint32_t ring = lease.pages.window.page_ids.size();
  if (arena.groups[kWindowGroup].layer_count == 0) return lease.write_end;
  if (ring >= FullPagesFor(lease.write_end)) return lease.write_end;
  // WindowPagesFor, solved for the chunk.
  const int64_t tokens = (int64_t{ring} - 1) * kPageTokens - arena.window_keys;
  return static_cast<uint32_t>(std::clamp<int64_t>(tokens, 0, lease.write_end));
}

absl::Status ValidateLease(const KvLease& lease, const KvArenaDescriptor& arena) {
  BATON_CHECK(arena.groups.size() == kKvGroupCount);
  if (lease.arena_incarnation != arena.incarnation)
    return absl::FailedPreconditionError(absl::StrCat("lease arena incarnation: wanted ",
                                                      arena.incarnation, ", found ",
                                                      lease.arena_incarnation));
  if (lease.lease_id == 0)
    return absl::InvalidArgumentError("lease id: wanted a number above 0, found 0");
  if (lease.write_begin >= lease.write_end)
    return absl::InvalidArgumentError(absl::StrCat("lease write range: wanted begin < end, found [",
                                                   lease.write_begin, ", ", lease.write_end, ")"));
  for (const auto& [name, pages, group] :
       {std::tuple{"full", &lease.pages.full, kFullGroup},
        std::tuple{"window", &lease.pages.window, kWindowGroup}}) {
    const PageId scratch = group < arena.scratch_pages.size() ? arena.scratch_pages[group] : 0;
    BATON_RETURN_IF_ERROR(CheckPages(name, *pages, arena.groups[group], scratch));
  }
  const uint32_t full_wanted =
      arena.groups[kFullGroup].layer_count > 0 ? FullPagesFor(lease.write_end) : 0;
  if (lease.pages.full.page_ids.size() < full_wanted)
    return absl::InvalidArgumentError(absl::StrCat("lease full pages: wanted ", full_wanted,
                                                   " for ", lease.write_end, " tokens, found ",
                                                   lease.pages.full.page_ids.size()));
  if (MaxChunkTokens(lease, arena) == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("lease window pages: wanted at least ",
                     WindowPagesFor(lease.write_end, arena.window_keys, 1), " for a window of ",
                     arena.window_keys, " keys, found ", lease.pages.window.page_ids.size()));
  return absl::OkStatus();
}

}  // namespace baton
