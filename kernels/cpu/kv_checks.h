// What must hold of a KV layout and of a sequence's pages before an op may touch them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/kv/kv_layout.h"

namespace baton {

// InvalidArgument unless `found` addresses the same model's tiles in the same format as `wanted`;
// page counts may differ.
absl::Status CheckSameKvFormat(const KvLayout& wanted, const KvLayout& found);

// The tokens whose K and V a sequence will have written when the step or the row is done, and the
// part that is written between two reads of the cache.
struct KvSpan {
  int64_t first_written = 0;  // Position.
  int64_t end = 0;            // One past the last position written.
  int64_t together = 1;       // Positions written before the oldest of them is read.
};

// InvalidArgument if `pages` are too few for the span, name a page that the arena lacks, or if the
// window's ring would overwrite keys that are still visible.
absl::Status CheckPages(const KvLayout& layout, const KvPageTable& pages, const KvSpan& span);

}  // namespace baton
