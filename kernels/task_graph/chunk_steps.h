// Into how many k-steps (16 columns of weights) a tile is cut for the decode kernel's ring. Pure.
#pragma once

#include <algorithm>

namespace baton {

inline constexpr int kMaxChunkSteps = 64;   // Of a chunk,
inline constexpr int kMaxSharedSteps = 48;  // and of one that all multiplying warps share.

// K-steps a chunk, at most `most` (a multiple of 8), for a tile of `steps` k-steps of `step_bytes`
// each: as many as a slot holds, evened out over the tile's chunks. A multiple of 8 unless it is
// the whole tile or the slot holds fewer, so that which warp takes which k-step does not depend on
// the slot size.
constexpr int ChunkSteps(int slot_bytes, int step_bytes, int steps, int most) {
  if (steps <= most && steps * step_bytes <= slot_bytes) return steps;
  const int fit = std::min(slot_bytes / step_bytes, most);
  if (fit < 8) return std::max(fit, 1);
  const int chunks = (steps + fit / 8 * 8 - 1) / (fit / 8 * 8);
  return ((steps + chunks - 1) / chunks + 7) / 8 * 8;
}

}  // namespace baton
