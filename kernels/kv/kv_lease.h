// KvLease: the right to write the K/V of some tokens of one sequence into another process' arena,
// for the length of one Prefill call. The domain twin of baton.v1.KvLease; a plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/kv/kv_arena_descriptor.h"
#include "kernels/kv/kv_layout.h"

namespace baton {

// Pages of one group with the generation each had when it was handed out.
struct KvPages {
  std::vector<PageId> page_ids;
  std::vector<uint32_t> generations;  // [page_ids.size()]

  bool operator==(const KvPages&) const = default;
};

// The pages of one sequence: full[l] holds logical page l, window is a ring (logical page l in slot
// l % size).
struct KvSequencePages {
  KvPages full;
  KvPages window;

  KvPageTable Table() const { return {full.page_ids, window.page_ids}; }
  bool operator==(const KvSequencePages&) const = default;
};

struct KvLease {
  uint64_t lease_id = 0;          // Unique per arena incarnation, > 0, rising.
  std::string arena_incarnation;  // Of the arena's owner.
  KvSequencePages pages;
  uint32_t write_begin = 0;  // Tokens [write_begin, write_end) may be written; earlier ones are a
  uint32_t write_end = 0;    // cached prefix and read-only.

  bool operator==(const KvLease&) const = default;
};

// The longest chunk, in tokens, in which a writer may compute the lease's tokens so that no ring
// slot is overwritten while the chunk still reads it; 0 if the ring is too small for any.
// write_end when the ring holds every page of the sequence or no layer is windowed.
uint32_t MaxChunkTokens(const KvLease& lease, const KvArenaDescriptor& arena);

// The writer's check of a lease before it touches a page of `arena`. FailedPrecondition: the lease
// is of another incarnation. InvalidArgument: id 0; an empty write range; a page id out of range,
// named twice or a scratch page; generations that do not match the pages in number; too few pages
// for write_end; a ring that allows no chunk. Messages name the field, what was wanted and found.
absl::Status ValidateLease(const KvLease& lease, const KvArenaDescriptor& arena);

}  // namespace baton
