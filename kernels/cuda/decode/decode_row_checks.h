// Whether a row may join the decode batch: what can be said without looking at the device. Pure.
#pragma once

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace baton::cuda {

struct RowLimits {
  int max_rows = 0;
  int vocab = 0;
  int max_pages = 0;           // Entries of a row's table of full-attention pages.
  int max_ring = 0;            // Entries of its table of window pages.
  bool validate_pages = true;  // Refuse page ids outside the arena.
  KvLayout layout;
};

// InvalidArgument naming the row and what is wrong, with wanted and found. Whether the slot is free
// is the caller's to know.
absl::Status CheckRowJoin(const RowJoin& join, const RowLimits& limits);

}  // namespace baton::cuda
