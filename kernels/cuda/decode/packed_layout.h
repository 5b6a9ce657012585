// Where an element of a weight matrix lies in packed form. The packer, the embedding lookup and the
// tests use this one definition; the decode kernel's loads are its inverse.
//
// Matrices other than gate/up: worker i of W owns the 8-row units [U i / W, U (i + 1) / W); its run
// is tiles of two units (512 bytes a k-step of 16: lane 4g + t holds rows g and g + 8, 16 bytes),
// with one single-unit tile (256 bytes a k-step, 8 a lane) at an odd end. Gate/up of one expert:
// worker i owns rows [R i / W, R (i + 1) / W) of both, in blocks of up to 8 rows, 64 bytes a row
// and k-step: lane 4g + t holds gate row g and up row g.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define BATON_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define BATON_HOST_DEVICE inline
#endif

namespace baton::cuda {

struct OwnedRange {
  uint32_t begin, end;
};

// The owner's range of the item `at` of `count` items split over `workers`.
BATON_HOST_DEVICE OwnedRange RangeAt(uint32_t at, uint32_t count, uint32_t workers) {
  uint32_t owner = static_cast<uint32_t>(static_cast<uint64_t>(at) * workers / count);
  while (static_cast<uint64_t>(count) * (owner + 1) / workers <= at) ++owner;
  return {static_cast<uint32_t>(static_cast<uint64_t>(count) * owner / workers),
          static_cast<uint32_t>(static_cast<uint64_t>(count) * (owner + 1) / workers)};
}

// Byte offset of elements (row, k) and (row, k + 1), k even, of a [rows, K] matrix given its unit's
// owner's range.
BATON_HOST_DEVICE uint64_t PackedPairOffsetIn(OwnedRange range, uint32_t row, uint32_t k,
                                              uint32_t width) {
  const uint32_t unit = row >> 3;
  const uint32_t tile_unit = range.begin + ((unit - range.begin) & ~1u);
  const uint64_t tile = static_cast<uint64_t>(tile_unit) * 16 * width;
  const uint32_t step = k >> 4, high = k >> 3 & 1, lane = (row & 7) * 4 + (k >> 1 & 3);
  if (tile_unit + 2 <= range.end)
    return tile + step * 512 + lane * 16 + (unit - tile_unit) * 4 + high * 8;
  return tile + step * 256 + lane * 8 + high * 4;
}

// The same for gate (part 0) or up (part 1) of one expert given the row's owner's range.
BATON_HOST_DEVICE uint64_t PackedGateUpOffsetIn(OwnedRange range, uint32_t row, uint32_t k,
                                                uint32_t width, int part) {
  const uint32_t block = range.begin + ((row - range.begin) & ~7u);
  const uint32_t rows = range.end - block < 8 ? range.end - block : 8;
  const uint32_t step = k >> 4, high = k >> 3 & 1, lane = (row - block) * 4 + (k >> 1 & 3);
  return static_cast<uint64_t>(block) * 4 * width + static_cast<uint64_t>(step) * 64 * rows +
         lane * 16 + part * 4 + high * 8;
}

}  // namespace baton::cuda
