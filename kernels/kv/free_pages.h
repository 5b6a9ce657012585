// FreePages: page ids that are free, as stretches of ids that follow each other, so that a
// sequence's pages follow each other too: that makes few and long copies to another GPU of them.
// Pure bookkeeping; one owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/kv/kv_layout.h"

namespace baton {

class FreePages {
 public:
  // None is free.
  FreePages() = default;
  // [first, first + count) are free.
  FreePages(PageId first, uint32_t count);

  // `count` pages in rising order within each stretch: of the smallest stretch that holds them all,
  // the lowest of equals; where none does, all of the largest, and so on. At most size().
  std::vector<PageId> Take(uint32_t count);
  // Of an id that is free, or none's: a program error.
  void Give(PageId page);

  uint32_t size() const { return size_; }
  // By their first page, the number of pages; they neither overlap nor touch.
  const std::map<PageId, uint32_t>& stretches() const { return stretches_; }

 private:
  std::map<PageId, uint32_t> stretches_;
  uint32_t size_ = 0;
};

}  // namespace baton
