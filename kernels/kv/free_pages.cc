#include "kernels/kv/free_pages.h"

#include <algorithm>
#include <iterator>

#include "common/check.h"

namespace baton {
namespace {

using Stretches = std::map<PageId, uint32_t>;

// The smallest that holds `count`, else the largest.
Stretches::iterator BestFit(Stretches& stretches, uint32_t count) {
  auto best = stretches.begin();
  for (auto it = stretches.begin(); it != stretches.end(); ++it) {
    const bool fits = it->second >= count;
    const bool best_fits = best->second >= count;
    const bool better =
        fits ? !best_fits || it->second < best->second : !best_fits && it->second > best->second;
    if (better) best = it;
  }
  return best;
}

}  // namespace

FreePages::FreePages(PageId first, uint32_t count) : size_(count) {
  if (count > 0) stretches_.emplace(first, count);
}

std::vector<PageId> FreePages::Take(uint32_t count) {
  BATON_CHECK(count <= size_);
  std::vector<PageId> pages;
  pages.reserve(count);
  while (pages.size() < count) {
    const uint32_t wanted = count - static_cast<uint32_t>(pages.size());
    const auto stretch = BestFit(stretches_, wanted);
    const auto [first, length] = *stretch;
    const uint32_t taken = std::min(wanted, length);
    for (uint32_t i = 0; i < taken; ++i) pages.push_back(first + i);
    stretches_.erase(stretch);
    if (taken < length) stretches_.emplace(first + taken, length - taken);
  }
  size_ -= count;
  return pages;
}

void FreePages::Give(PageId page) {
  const auto after = stretches_.upper_bound(page);
  const auto before = after == stretches_.begin() ? stretches_.end() : std::prev(after);
  BATON_CHECK(before == stretches_.end() || before->first + before->second <= page);
  const bool joins_before = before != stretches_.end() && before->first + before->second == page;
  const bool joins_after = after != stretches_.end() && after->first == page + 1;
  uint32_t length = 1;
  if (joins_after) {
    length += after->second;
    stretches_.erase(after);
  }
  if (joins_before) {
    before->second += length;
  } else {
    stretches_.emplace(page, length);
  }
  ++size_;
}

}  // namespace baton
