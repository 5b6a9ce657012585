// ChunkPlan: what the kernels of one prefill chunk need to know about its segments, worked out on
// the host from plain values. Pure; no CUDA call.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/generation.h"
#include "kernels/kv/kv_layout.h"

namespace baton::prefill {

// A stretch of one prompt in a chunk: positions [begin, begin + tokens.size()). Everything before
// `begin` is in the pages already.
struct PrefillSegment {
  absl::Span<const TokenId> tokens;
  int begin = 0;
  const KvPageTable* pages = nullptr;
  const KvPageTable* push_pages = nullptr;  // Where K/V also goes, when the chunk is pushed.
  bool sample = false;                      // Sample a token after the last position.
  SamplingParams sampling;
  std::vector<float>* logits = nullptr;  // If set with `sample`: receives [vocab].
};

// Device-side: where a segment's page ids begin in ChunkPlan::pages.
struct SegmentPages {
  int full_begin = 0;
  int window_begin = 0;
  int window_ring = 1;  // Slots of the ring.
  int kv_length = 0;    // Tokens in the cache once the chunk is written.
};

// Device-side: consecutive tokens of one segment, one unit of attention work per KV head.
struct AttentionTile {
  int row = 0;       // First token's row in the chunk.
  int tokens = 0;    // At least 1.
  int position = 0;  // Absolute position of the first token.
  int segment = 0;
};

struct ChunkPlan {
  int tokens = 0;
  std::vector<int32_t> token_ids;      // [tokens]
  std::vector<int32_t> positions;      // [tokens]
  std::vector<int32_t> token_segment;  // [tokens]
  std::vector<SegmentPages> segments;
  std::vector<uint32_t> pages;
  std::vector<AttentionTile> tiles;     // Longest key range first.
  std::vector<int32_t> sample_rows;     // Rows whose logits are wanted, by segment.
  std::vector<int32_t> sample_segment;  // The segment of each.
};

struct ChunkLimits {
  int max_tokens = 0;
  int max_segments = 0;
  int max_positions = 0;  // Of the model.
  int vocab = 0;
  int tile_tokens = 0;  // From AttentionTileTokens.
};

// InvalidArgument, naming the segment, what was wanted and what was found: no or too many tokens or
// segments, a token id outside the vocabulary, positions beyond the model's, too few pages, a page
// id beyond the arena, an empty window ring where the layout has window layers, or a ring too small
// for the segment.
absl::StatusOr<ChunkPlan> PlanChunk(absl::Span<const PrefillSegment> segments,
                                    const KvLayout& layout, const ChunkLimits& limits);

}  // namespace baton::prefill
