#include "kernels/cpu/kv_checks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

absl::Status CheckIds(const std::vector<PageId>& pages, const KvGroupLayout& group,
                      const char* name) {
  for (PageId page : pages) {
    if (page >= group.page_count) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " page: wanted an id below ", group.page_count, ", found ", page));
    }
  }
  return absl::OkStatus();
}

// Logical pages that must be in the ring at once, at the worst moment of the span.
int64_t RingPages(const KvLayout& layout, const KvSpan& span) {
  const int64_t keys_before = int64_t{layout.window_keys} - 1;
  if (span.end - span.first_written <= span.together) {
    const int64_t oldest = std::max<int64_t>(0, span.first_written - keys_before);
    return (span.end - 1) / kPageTokens - oldest / kPageTokens + 1;
  }
  // n neighbouring positions touch at most (n - 2) / page + 2 pages.
  const int64_t positions = std::max<int64_t>(2, keys_before + span.together);
  return std::min<int64_t>(FullPagesFor(span.end), (positions - 2) / kPageTokens + 2);
}

}  // namespace

absl::Status CheckSameKvFormat(const KvLayout& wanted, const KvLayout& found) {
  const auto differs = [](const char* what, auto a, auto b) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV layout: ", what, ": wanted ", a, ", found ", b));
  };
  if (wanted.kv_heads != found.kv_heads)
    return differs("kv_heads", wanted.kv_heads, found.kv_heads);
  if (wanted.head_dim != found.head_dim)
    return differs("head_dim", wanted.head_dim, found.head_dim);
  if (wanted.element_bytes != found.element_bytes) {
    return differs("element_bytes", wanted.element_bytes, found.element_bytes);
  }
  if (wanted.swizzled != found.swizzled)
    return differs("swizzled", wanted.swizzled, found.swizzled);
  if (wanted.window_keys != found.window_keys) {
    return differs("window_keys", wanted.window_keys, found.window_keys);
  }
  if (wanted.layer_group != found.layer_group || wanted.layer_in_group != found.layer_in_group) {
    return absl::InvalidArgumentError(
        "KV layout: layers: wanted the model's split in groups, found another");
  }
  return absl::OkStatus();
}

absl::Status CheckPages(const KvLayout& layout, const KvPageTable& pages, const KvSpan& span) {
  const KvGroupLayout& full = layout.groups[kFullGroup];
  const KvGroupLayout& window = layout.groups[kWindowGroup];
  if (full.layer_count > 0) {
    if (pages.full.size() < FullPagesFor(span.end)) {
      return absl::InvalidArgumentError(absl::StrCat("full pages: wanted at least ",
                                                     FullPagesFor(span.end), " for ", span.end,
                                                     " tokens, found ", pages.full.size()));
    }
  }
  if (window.layer_count > 0) {
    const int64_t wanted = RingPages(layout, span);
    if (static_cast<int64_t>(pages.window.size()) < wanted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "window pages: wanted a ring of at least ", wanted, " for ", span.end, " tokens written ",
          span.together, " at a time, found ", pages.window.size()));
    }
  }
  // A group without layers has no pages, so that no id is one of its.
  BATON_RETURN_IF_ERROR(CheckIds(pages.full, full, "full"));
  return CheckIds(pages.window, window, "window");
}

}  // namespace baton
