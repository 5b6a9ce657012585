// The MMA warps: every weight byte passes through them. They normalise x on load, multiply tiles
// and hand each to the epilogue warps as partial sums.
//
// Up to sixteen rows, a tile of Router, QkvRope, GateUp or LmHead is the work of a team of four
// warps, the next one that of the other four, so that one team's waits hide behind the other's
// work. OutputProj and Down, a worker's only tile of theirs, take all eight, and so does every tile
// of more rows, whose products hide the waits.
//
// An expert multiplies the rows that chose it alone: with more than two row tiles they are gathered
// into as few columns as hold them.
//
// Numbers: of a team's tile, the k-steps s with s % 8 == w add up in ascending order in one float32
// accumulator each for w in 0..7; then 0 and 4, 1 and 5, 2 and 6, 3 and 7 are added, then these in
// order. Of a shared tile, warp w takes the k-steps s with s % 8 == w by turns into two
// accumulators, which are added at the tile's end; then warps 0 to 3 are added in order, 4 to 7,
// and both. Neither the batch, nor the row's slot, nor the slot size changes the order, so a row's
// results are bit-identical in any batch.
#pragma once

#include "kernels/cuda/decode/worker_group.cuh"

namespace baton::cuda {

// The two accumulators of a tile and their row tiles.
template <int NT>
struct Accumulator {
  float even[NT][4], odd[NT][4];
  __device__ void Clear() {
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) even[j][i] = odd[j][i] = 0.0f;
  }
  __device__ void Sum(float (&sum)[NT][4]) const {
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[j][i] = even[j][i] + odd[j][i];
  }
  // After an odd number of k-steps: the next one is the other accumulator's. Their sum is the same
  // either way round.
  __device__ void Swap() {
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float kept = even[j][i];
        even[j][i] = odd[j][i];
        odd[j][i] = kept;
      }
  }
};

// K-steps of `steps` that are the warp's where all MMA warps take them by turns.
__device__ __forceinline__ int OwnSteps(int steps, int warp) {
  return uint32_t(steps + kMmaWarps - 1 - warp) / kMmaWarps;
}

// This lane's A operands of kCount k-steps from `at`. Rows that a tile does not have read as copies
// of others: their outputs are never used, and rows do not mix.
template <int kCount>
__device__ __forceinline__ void LoadA(const char* at, int stride, bool half, uint4 (&a)[kCount]) {
  if (half) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint2 v = *reinterpret_cast<const uint2*>(at + i * stride);
      a[i] = make_uint4(v.x, v.x, v.y, v.y);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      a[i] = *reinterpret_cast<const uint4*>(at + i * stride);
    }
  }
}

// K-steps of a warp in most chunks of GateUp that all MMA warps take.
inline constexpr int kUsualOwn = 4;

// Whether k-steps go to the two accumulators by turns, and which is the first one's.
enum Turns { kNoTurns, kEvenFirst, kOddFirst };

template <int NT>
struct MmaGroup : WorkerGroup<kMmaRole, kMmaThreads> {
  RingPlace next{};       // Of the next chunk to take,
  uint32_t taken = 0;     // so many in,
  bool landed = false;    // which is known to be there.
  uint32_t loaded = ~0u;  // Task whose first chunk was traced.
  uint32_t tiles = 0;     // Of 16 x 8, handed to the epilogue warps by either team.

  using WorkerGroup::WorkerGroup;

  __device__ int Team() const { return warp / kTeamWarps; }
  // Whose turn the next tile is: a tile of one team's is NT tiles of 16 x 8, a shared one twice
  // that.
  __device__ bool OthersTurn() const { return int(tiles / NT & 1) != Team(); }

  // --- Chunks. `more`: the chunk after this one is for this warp too.
  __device__ const char* Acquire(bool more) {
    if (!landed && !Arrived(next, taken)) {
      const long long start = clock64();
      Record(misc, kMmaRole, {kWaitRing, taken, 0});
      while (!Asked(taken) && !Ending(misc)) {
      }
      Wait(misc.rings[kWeightRing].full[next.slot], next.phase, kWaitRing);
      if (tid == 0) misc.wait_memory += clock64() - start;
    }
    TraceLoaded();
    // The next chunk's state is read now, behind this one's loads.
    RingPlace after = next;
    after.Advance(p.smem.slot_count);
    landed = more && Arrived(after, taken + 1);
    return smem.slot(next.slot);
  }
  // A team may be so far ahead of the other that the slot's barrier is at the phase of an earlier
  // chunk, whose parity says nothing: the chunk must have been asked for.
  __device__ bool Asked(uint32_t chunk) const {
    return static_cast<int32_t>(LoadShared(misc.issued[kWeightRing]) - chunk) > 0;
  }
  __device__ bool Arrived(const RingPlace& place, uint32_t chunk) const {
    return Asked(chunk) &&
           BarrierTest(SmemAddress(&misc.rings[kWeightRing].full[place.slot]), place.phase);
  }
  // The next chunk of those that all warps take, from a barrier of all on: what came before has
  // landed, and no warp can be a phase ahead of another.
  __device__ const char* AcquireShared() {
    const uint64_t& full = misc.rings[kWeightRing].full[next.slot];
    if (!BarrierTest(SmemAddress(&full), next.phase)) {
      const long long start = clock64();
      Wait(full, next.phase, kWaitRing);
      if (tid == 0) misc.wait_memory += clock64() - start;
    }
    TraceLoaded();
    return smem.slot(next.slot);
  }
  // That the task's first chunk is there.
  __device__ void TraceLoaded() {
    if (!kTraced || loaded == task().index) return;
    loaded = task().index;
    Trace(kTaskLoaded);
  }
  // A chunk that kParts warps read. Barriers count eight arrivals.
  template <int kParts>
  __device__ void Release() {
    __syncwarp();
    WarpArrive(misc.rings[kWeightRing].empty[next.slot], lane < kMmaWarps / kParts);
    next.Advance(p.smem.slot_count);
    ++taken;
  }
  // Past chunks of the other team.
  __device__ void Skip(int chunks) {
    for (; kRacecheck && chunks > 0; --chunks) {  // As if they were taken.
      landed = false;
      Acquire(false);
      Release<kMmaWarps>();
    }
    taken += chunks;
    for (; chunks > 0; --chunks) next.Advance(p.smem.slot_count);
  }

  // Hands this warp's sums of a tile of 16 x 8, or of its half of one, to the epilogue warps.
  __device__ void TileDone(uint32_t number, const float (&sum)[4]) {
    constexpr int kParts = kMmaWarps / kTeams<NT>;
    const int stage = number % kStages<NT>;
    Wait(misc.partial_empty[stage], (number / kStages<NT> & 1) ^ 1, kWaitTile);
    reinterpret_cast<float4*>(smem.reduce())[(stage * kParts + warp % kParts) * 32 + lane] =
        make_float4(sum[0], sum[1], sum[2], sum[3]);
    __syncwarp();
    WarpArrive(misc.partial_full[stage], lane == 0);
  }
  // A tile that all warps share: two teams hand over a half each.
  __device__ void SharedTileDone(const float (&sum)[4]) {
    TileDone(kTeams<NT> == 2 ? tiles + Team() : tiles, sum);
    tiles += kTeams<NT>;
  }

  // acc += W . b for kCount k-steps of a warp at once; a, b: this lane's operands of the first, b
  // of every row tile, kStride bytes from one k-step to the next. Only `row_tiles`, a bit mask, are
  // multiplied.
  template <int kStride, Turns kTurns, int kCount>
  __device__ void MultiplyBlock(const char* a, const char* const (&b)[NT], uint32_t b_offset,
                                int stride, bool half, uint32_t row_tiles, Accumulator<NT>& acc) {
    uint4 fa[kCount];
    LoadA<kCount>(a, stride, half, fa);
    const auto multiply = [&](int j) {
      if (NT > 1 && !(row_tiles >> j & 1)) return;
      uint2 fb[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        fb[i] = *reinterpret_cast<const uint2*>(b[j] + b_offset + i * kStride);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const bool odd = kTurns != kNoTurns && (i % 2 == 1) != (kTurns == kOddFirst);
        Mma16(odd ? acc.odd[j] : acc.even[j], fa[i], fb[i]);
      }
    };
    multiply(0);
    if constexpr (NT > 1) {
      // One branch past them all: instructions that are off take their time, too.
      if (row_tiles <= 1) return;
#pragma unroll
      for (int j = 1; j < NT; ++j) multiply(j);
    }
  }

  // The same for all row tiles, b_tile bytes apart: their products, which wait for nothing of each
  // other's, follow one another.
  template <int kStride, Turns kTurns, int kCount>
  __device__ void MultiplyAll(const char* a, const char* b, uint32_t b_tile, int stride, bool half,
                              Accumulator<NT>& acc) {
    uint4 fa[kCount];
    LoadA<kCount>(a, stride, half, fa);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool odd = kTurns != kNoTurns && (i % 2 == 1) != (kTurns == kOddFirst);
      uint2 fb[NT];
#pragma unroll
      for (int j = 0; j < NT; ++j)
        fb[j] = *reinterpret_cast<const uint2*>(b + j * b_tile + i * kStride);
#pragma unroll
      for (int j = 0; j < NT; ++j) Mma16(odd ? acc.odd[j] : acc.even[j], fa[i], fb[j]);
    }
  }

  // The same for `count` k-steps of this warp: of a chunk.
  template <int kParts, bool kByTurns>
  __device__ void MultiplyChunk(const char* a, const char* const (&b)[NT], uint32_t b_offset,
                                int count, int stride, bool half, uint32_t row_tiles,
                                Accumulator<NT>& acc) {
    constexpr int kBlock = NT == 1 ? 8 : 4;
    constexpr Turns kTurns = kByTurns ? kEvenFirst : kNoTurns;
#pragma unroll 1
    for (; count >= kBlock; count -= kBlock) {
      MultiplyBlock<kParts * 256, kTurns, kBlock>(a, b, b_offset, stride, half, row_tiles, acc);
      a += kBlock * stride;
      b_offset += kBlock * kParts * 256;
    }
    if (count == 0) return;
    if (kBlock > 4 && count >= 4) {
      MultiplyBlock<kParts * 256, kTurns, 4>(a, b, b_offset, stride, half, row_tiles, acc);
      count -= 4;
      a += 4 * stride;
      b_offset += 4 * kParts * 256;
    }
    if (count >= 2) {
      MultiplyBlock<kParts * 256, kTurns, 2>(a, b, b_offset, stride, half, row_tiles, acc);
      count -= 2;
      a += 2 * stride;
      b_offset += 2 * kParts * 256;
    }
    if (count > 0) {
      MultiplyBlock<kParts * 256, kTurns, 1>(a, b, b_offset, stride, half, row_tiles, acc);
      if (kByTurns) acc.Swap();
    }
  }

  // acc += W . b for `count` k-steps of this warp, of a chunk that all warps take; `odd`: the first
  // is the other accumulator's.
  template <int kStride>
  __device__ void MultiplyShared(const char* a, const char* const (&b)[NT], uint32_t b_offset,
                                 int count, bool half, uint32_t row_tiles, bool odd,
                                 Accumulator<NT>& acc) {
    const int stride = kMmaWarps * (half ? 256 : 512);
#pragma unroll 1
    for (; count >= 3; count -= 3, odd = !odd) {  // What 24 k-steps are to a warp.
      if (odd) {
        MultiplyBlock<kStride, kOddFirst, 3>(a, b, b_offset, stride, half, row_tiles, acc);
      } else {
        MultiplyBlock<kStride, kEvenFirst, 3>(a, b, b_offset, stride, half, row_tiles, acc);
      }
      a += 3 * stride;
      b_offset += 3 * kStride;
    }
#pragma unroll 1
    for (; count > 0; --count, odd = !odd) {
      if (odd) {
        MultiplyBlock<kStride, kOddFirst, 1>(a, b, b_offset, stride, half, row_tiles, acc);
      } else {
        MultiplyBlock<kStride, kEvenFirst, 1>(a, b, b_offset, stride, half, row_tiles, acc);
      }
      a += stride;
      b_offset += kStride;
    }
  }

  // acc += W_tile . xs for one tile. b: where this lane's column of every row tile begins in xs.
  __device__ void MultiplyTile(int step_bytes, int chunk_steps, bool half,
                               const char* const (&b)[NT], uint32_t row_tiles,
                               Accumulator<NT>& acc) {
    constexpr int kParts = kMmaWarps / kTeams<NT>;
    const int part = warp % kParts;
    const int offset = part * step_bytes + (half ? lane * 8 : min(lane * 16, step_bytes - 16));
    uint32_t b_offset = part * 256;
    landed = false;
#pragma unroll 1
    for (int left = p.hidden / 16; left > 0; left -= chunk_steps) {
      const char* a = (kTeams<NT> == 1 ? AcquireShared() : Acquire(left > chunk_steps)) + offset;
      const int count = (min(chunk_steps, left) - part + kParts - 1) / kParts;
      MultiplyChunk<kParts, kTeams<NT> == 2>(a, b, b_offset, count, kParts * step_bytes, half,
                                             row_tiles, acc);
      b_offset += chunk_steps * 256;
      Release<kParts>();
    }
  }
  // The same of one tile of gathered rows: with every load on its way before the first product.
  __device__ void MultiplyGathered(int step_bytes, int chunk_steps, const char* b,
                                   float (&sum)[4]) {
    const int offset = warp * step_bytes + min(lane * 16, step_bytes - 16);
    const int stride = kMmaWarps * step_bytes;
    b += warp * 256;
#pragma unroll 1
    for (int left = p.hidden / 16; left > 0; left -= chunk_steps) {
      const int count = OwnSteps(min(chunk_steps, left), warp);
      if (count == kUsualOwn) {
        uint2 fb[kUsualOwn];
#pragma unroll
        for (int i = 0; i < kUsualOwn; ++i)
          fb[i] = *reinterpret_cast<const uint2*>(b + i * kMmaWarps * 256);
        uint4 fa[kUsualOwn];
        LoadA<kUsualOwn>(AcquireShared() + offset, stride, false, fa);
        // The slot is free before the products are made: with small slots memory waits for it.
        Release<kMmaWarps>();
#pragma unroll
        for (int i = 0; i < kUsualOwn; ++i) Mma16(sum, fa[i], fb[i]);
      } else {
        const char* a = AcquireShared() + offset;
#pragma unroll 1
        for (int i = 0; i < count; ++i) {
          uint4 fa[1];
          LoadA<1>(a + i * stride, stride, false, fa);
          Mma16(sum, fa[0], *reinterpret_cast<const uint2*>(b + i * kMmaWarps * 256));
        }
        Release<kMmaWarps>();
      }
      b += chunk_steps * 256;
    }
  }
  // The same of all row tiles, by all MMA warps.
  __device__ void MultiplyAllRows(int chunk_steps, bool half, Accumulator<NT>& acc) {
    const int step_bytes = half ? 256 : 512, stride = kMmaWarps * step_bytes;
    const int offset = warp * step_bytes + lane * (half ? 8 : 16);
    const char* b = RowInXs(lane >> 2) + warp * 256;
#pragma unroll 1
    for (int left = p.hidden / 16; left > 0; left -= chunk_steps) {
      const char* a = AcquireShared() + offset;
      const char* of_chunk = b;
      int count = OwnSteps(min(chunk_steps, left), warp);
#pragma unroll 1
      for (; count >= 3; count -= 3) {  // What 24 k-steps are to a warp.
        MultiplyAll<kMmaWarps * 256, kNoTurns, 3>(a, of_chunk, p.smem.xs_row_bytes, stride, half,
                                                  acc);
        a += 3 * stride;
        of_chunk += 3 * kMmaWarps * 256;
      }
#pragma unroll 1
      for (; count > 0; --count) {
        MultiplyAll<kMmaWarps * 256, kNoTurns, 1>(a, of_chunk, p.smem.xs_row_bytes, stride, half,
                                                  acc);
        a += stride;
        of_chunk += kMmaWarps * 256;
      }
      b += chunk_steps * 256;
      Release<kMmaWarps>();
    }
  }
  // Where row `row` of the batch begins in xs, for this lane.
  __device__ const char* RowInXs(int row) const {
    return smem.xs() + (row >> 3) * p.smem.xs_row_bytes + (row & 7) * 32 + (lane & 3) * 8;
  }
};

// Router, QkvRope, GateUp and LmHead: W . xs over the owned rows, tile by tile.
template <int NT>
__device__ void MultiplyRows(MmaGroup<NT>& c) {
  const DecodeParams& p = c.p;
  const bool gate_up = c.task().op == OpKind::kGateUp;
  const int owned = c.task().end - c.task().begin;
  int slice = 0, slice_end = 1, row_tiles = NT;
  const char* b[NT];
#pragma unroll
  for (int j = 0; j < NT; ++j) b[j] = c.RowInXs(8 * j + (c.lane >> 2));
  if (gate_up) {
    const uint32_t waited = c.WaitRouting();
    if (c.tid == 0) c.misc.wait_routing += waited;
    c.Trace(kTaskWaited);
    const SliceRange slices = TaskSlices(c.task(), c.layer(), c.ActiveCount());
    slice = slices.begin;
    slice_end = slices.end;
  }
#pragma unroll 1
  for (; slice < slice_end; ++slice) {
    if (kGathers<NT> && gate_up) {
      const Slice of = c.smem.slices()[slice];
      row_tiles = TilesFor(__popc(of.rows));
#pragma unroll
      for (int j = 0; j < NT; ++j) b[j] = c.RowInXs(c.smem.GatheredRow(of, 8 * j + (c.lane >> 2)));
    }
#pragma unroll 1
    for (int left = owned; left > 0; left -= gate_up ? 8 : 2) {
      const int rows = min(left, 8);
      const bool half = !gate_up && left < 2;
      const int step_bytes = gate_up ? 64 * rows : half ? 256 : 512;
      const int chunk_steps =
          gate_up ? p.smem.chunks.gate_up[rows - 1] : p.smem.chunks.hidden[half ? 0 : 1];
      if (kTeams<NT> == 2) {
        if (c.OthersTurn()) {
          c.Skip((p.hidden / 16 + chunk_steps - 1) / chunk_steps);
          c.tiles += row_tiles;
          continue;
        }
      }
      if (kGathers<NT> && gate_up && row_tiles == 1) {
        float sum[4] = {0, 0, 0, 0};
        c.MultiplyGathered(step_bytes, chunk_steps, b[0], sum);
        c.TileDone(c.tiles++, sum);
        continue;
      }
      Accumulator<NT> acc;
      acc.Clear();
      const uint32_t tiles = (1u << row_tiles) - 1;
      if (kTeams<NT> == 1 && !gate_up) {
        c.MultiplyAllRows(chunk_steps, half, acc);
      } else {
        c.MultiplyTile(step_bytes, chunk_steps, kTeams<NT> == 2 && half, b, tiles, acc);
      }
      float sum[NT][4];
      acc.Sum(sum);
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        if (j < row_tiles) c.TileDone(c.tiles++, sum[j]);
      }
    }
  }
}

}  // namespace baton::cuda
