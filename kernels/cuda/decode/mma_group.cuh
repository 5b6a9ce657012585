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

template <int NT>
struct MmaGroup : WorkerGroup<kMmaRole, kMmaThreads> {
  RingPlace next{};     // Of the next chunk to take,
  uint32_t taken = 0;   // so many in,
  bool landed = false;  // which is known to be there.
  uint32_t tiles = 0;   // Of 16 x 8, handed to the epilogue warps by either team.
  int turn = 0;         // Team of the next tile.

  using WorkerGroup::WorkerGroup;

  __device__ int Team() const { return warp / kTeamWarps; }

  // --- Chunks. `more`: the chunk after this one is for this warp too.
  __device__ const char* Acquire(bool more) {
    if (!landed && !Arrived(next, taken)) {
      const long long start = clock64();
      Record(misc, kMmaRole, {kWaitRing, taken, 0});
      while (!Arrived(next, taken) && !Ending(misc)) {
      }
      if (tid == 0) misc.wait_memory += clock64() - start;
    }
    // The next chunk's state is read now, behind this one's loads.
    RingPlace after = next;
    after.Advance(p.smem.slot_count);
    landed = more && Arrived(after, taken + 1);
    return smem.slot(next.slot);
  }
  // A team may be so far ahead of the other that the slot's barrier is at the phase of an earlier
  // chunk, whose parity says nothing: the chunk must have been asked for.
  __device__ bool Arrived(const RingPlace& place, uint32_t chunk) const {
    const uint32_t issued = *const_cast<const volatile uint32_t*>(&misc.issued[kWeightRing]);
    return static_cast<int32_t>(issued - chunk) > 0 &&
           BarrierTest(SmemAddress(&misc.rings[kWeightRing].full[place.slot]), place.phase);
  }
  // A chunk that kParts warps read. Barriers count eight arrivals.
  template <int kParts>
  __device__ void Release() {
    __syncwarp();
    if (lane < kMmaWarps / kParts)
      BarrierArrive(SmemAddress(&misc.rings[kWeightRing].empty[next.slot]));
    next.Advance(p.smem.slot_count);
    ++taken;
  }
  // Past chunks of the other team.
  __device__ void Skip(int chunks) {
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
    if (lane == 0) BarrierArrive(SmemAddress(&misc.partial_full[stage]));
  }
  // A tile that all warps share: two teams hand over a half each.
  __device__ void SharedTileDone(const float (&sum)[4]) {
    TileDone(kTeams<NT> == 2 ? tiles + Team() : tiles, sum);
    tiles += kTeams<NT>;
  }

  // acc += W . b for kCount k-steps of one of kParts warps at once; a, b: this lane's operands of
  // the first, b of every row tile; row tiles from `row_tiles` on are left out.
  template <int kParts, bool kByTurns, int kCount>
  __device__ void MultiplyBlock(const char* a, const char* const (&b)[NT], uint32_t b_offset,
                                int stride, bool half, int row_tiles, Accumulator<NT>& acc) {
    uint4 fa[kCount];
    LoadA<kCount>(a, stride, half, fa);
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      if (NT > 1 && j >= row_tiles) continue;
      uint2 fb[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        fb[i] = *reinterpret_cast<const uint2*>(b[j] + b_offset + i * (kParts * 256));
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        Mma16(kByTurns && i % 2 == 1 ? acc.odd[j] : acc.even[j], fa[i], fb[i]);
    }
  }

  // The same for `count` k-steps of this warp: of a chunk.
  template <int kParts, bool kByTurns>
  __device__ void MultiplyChunk(const char* a, const char* const (&b)[NT], uint32_t b_offset,
                                int count, int stride, bool half, int row_tiles,
                                Accumulator<NT>& acc) {
    constexpr int kBlock = NT == 1 ? 8 : 4;
#pragma unroll 1
    for (; count >= kBlock; count -= kBlock) {
      MultiplyBlock<kParts, kByTurns, kBlock>(a, b, b_offset, stride, half, row_tiles, acc);
      a += kBlock * stride;
      b_offset += kBlock * kParts * 256;
    }
    if (count == 0) return;
    if (kBlock > 4 && count >= 4) {
      MultiplyBlock<kParts, kByTurns, 4>(a, b, b_offset, stride, half, row_tiles, acc);
      count -= 4;
      a += 4 * stride;
      b_offset += 4 * kParts * 256;
    }
    if (count >= 2) {
      MultiplyBlock<kParts, kByTurns, 2>(a, b, b_offset, stride, half, row_tiles, acc);
      count -= 2;
      a += 2 * stride;
      b_offset += 2 * kParts * 256;
    }
    if (count > 0) {
      MultiplyBlock<kParts, kByTurns, 1>(a, b, b_offset, stride, half, row_tiles, acc);
      if (kByTurns) acc.Swap();
    }
  }

  // acc += W_tile . xs for one tile. b: where this lane's column of every row tile begins in xs.
  __device__ void MultiplyTile(int step_bytes, int chunk_steps, bool half,
                               const char* const (&b)[NT], int row_tiles, Accumulator<NT>& acc) {
    constexpr int kParts = kMmaWarps / kTeams<NT>;
    const int part = warp % kParts;
    const int offset = part * step_bytes + (half ? lane * 8 : min(lane * 16, step_bytes - 16));
    uint32_t b_offset = part * 256;
    landed = false;
#pragma unroll 1
    for (int left = p.hidden / 16; left > 0; left -= chunk_steps) {
      const char* a = Acquire(left > chunk_steps) + offset;
      const int count = (min(chunk_steps, left) - part + kParts - 1) / kParts;
      MultiplyChunk<kParts, kTeams<NT> == 2>(a, b, b_offset, count, kParts * step_bytes, half,
                                             row_tiles, acc);
      b_offset += chunk_steps * 256;
      Release<kParts>();
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
        const bool other = c.turn != c.Team();
        c.turn ^= 1;
        if (other) {
          c.Skip((p.hidden / 16 + chunk_steps - 1) / chunk_steps);
          c.tiles += row_tiles;
          continue;
        }
      }
      Accumulator<NT> acc;
      acc.Clear();
      c.MultiplyTile(step_bytes, chunk_steps, half, b, row_tiles, acc);
      float sum[NT][4];
      acc.Sum(sum);
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        if (j < row_tiles) c.TileDone(c.tiles++, sum[j]);
      }
    }
  }
}

// OutputProj and Down: W . b over the owned rows, tile by tile, slice by slice, chunk by chunk; b
// is a fragment buffer in global memory. A chunk's fragments are copied two chunks ahead to where
// xs was, every warp into the k-steps of xs that are its own: nobody else reads or writes them.
// Down's fragments are those of the gathered rows; it applies their scores to each slice's product
// in float32, in ascending expert id.
template <int NT>
struct GlobalRows {
  static constexpr int kMost = kMaxChunkSteps / kMmaWarps;  // K-steps of a chunk and warp.
  static constexpr int kAhead = 2;
  static_assert(kAhead * kMost * kMmaWarps <= kXsSteps);
  // What is known of a chunk whose fragments were asked for, packed: k-steps of this warp, slice
  // and flags.
  static constexpr uint32_t kNoChunk = ~0u, kHalf = 1u << 8, kEndsSlice = 1u << 9,
                            kEndsTile = 1u << 10;
  static constexpr int kSliceShift = 16;

  MmaGroup<NT>& c;
  const bool down;
  const int active_count, slice_count;
  const char* const hidden;
  // The next chunk to ask for.
  uint32_t unit;
  int slice = 0, first = 0, steps = 0, chunk_steps = 0;
  const char* b = nullptr;
  uint32_t columns = 0;  // Of the fragment buffer, those that the slice has.
  uint32_t chunk[kAhead];

  __device__ explicit GlobalRows(MmaGroup<NT>& group)
      : c(group),
        down(group.task().op == OpKind::kDown),
        active_count(group.ActiveCount()),
        slice_count(down ? TaskSlices(group.task(), group.layer(), active_count).end : 1),
        hidden(group.p.hidden_act + group.task().buffer_epoch * group.p.hidden_copy_bytes),
        unit(slice_count > 0 ? group.task().begin : group.task().end) {
    StartSlice();
  }
  __device__ bool Half() const { return unit + 1 == c.task().end; }
  // Rows of the batch that slice `of` is for.
  __device__ uint32_t RowsOf(int of) const {
    return down ? c.smem.slices()[of].rows : c.misc.active_rows;
  }
  __device__ void StartSlice() {
    first = 0;
    const ChunkTable& chunks = c.p.smem.chunks;
    const int full = Half() ? 0 : 1;
    if (slice == slice_count) return;
    columns = RowsOf(slice);
    if (kGathers<NT> && down) columns = ~0u >> (32 - max(1, __popc(columns)));
    if (!down) {
      b = c.p.attention;
      steps = c.p.q_width / 16;
      chunk_steps = chunks.q_width[full];
    } else if (slice == active_count) {
      b = hidden + c.p.hidden_always_offset;
      steps = c.layer().always_width / 16;
      chunk_steps = c.layer().always_chunk[NT - 1][full];
    } else {
      b = hidden + slice * c.p.hidden_slice_bytes;
      steps = c.layer().expert_width / 16;
      chunk_steps = chunks.expert_width[full];
    }
  }
  // Where this warp's fragments of k-step i of the chunk in `place` lie.
  __device__ char* Staged(int place, int i) const {
    return c.smem.xs() + ((place * kMost + i) * kMmaWarps + c.warp) * 256;
  }
  // Starts the copy of the next chunk's fragments. What the columns hold that the slice does not
  // have does not matter: columns do not mix.
  __device__ uint32_t Ask(int place) {
    if (unit >= c.task().end) return kNoChunk;
    const int count = (min(chunk_steps, steps - first) - c.warp + kMmaWarps - 1) / kMmaWarps;
    const int part = c.lane & 15;  // 16 bytes: two neighbouring lanes' of one column.
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      if ((columns >> (8 * j) & 0xff) == 0) continue;
      const bool wanted = columns >> (8 * j + (part >> 1)) & 1;
      const char* from = b + (j * steps + first + c.warp) * 256 + part * 16;
#pragma unroll
      for (int i = 0; i < kMost; i += 2) {
        const int step = i + (c.lane >> 4);
        if (wanted && step < count) {
          AsyncCopy16(SmemAddress(Staged(place, step)) + j * c.p.smem.xs_row_bytes + part * 16,
                      from + step * (kMmaWarps * 256));
        }
      }
    }
    uint32_t asked = max(count, 0) | uint32_t(slice) << kSliceShift | (Half() ? kHalf : 0);
    first += chunk_steps;
    if (first < steps) return asked;
    asked |= kEndsSlice;
    if (++slice == slice_count) {
      asked |= kEndsTile;
      slice = 0;
      unit += 2;
    }
    StartSlice();
    return asked;
  }
  // total += scores * the slice's sums; a row that did not choose the expert is left out, not
  // scaled by zero. Gathered rows go to their own places.
  __device__ void AddScaled(int of, const Accumulator<NT>& acc, float (&total)[NT][4]) const {
    float sum[NT][4];
    acc.Sum(sum);
    if (!down) {
#pragma unroll
      for (int j = 0; j < NT; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) total[j][i] += sum[j][i];
      return;
    }
    const uint32_t rows = RowsOf(of);
    if constexpr (!kGathers<NT>) {
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        const int row = 8 * j + 2 * (c.lane & 3);
        const uint32_t scores = c.smem.template Scores<NT>(of, row);
        if (rows >> row & 1) {
          total[j][0] += LowFloat(scores) * sum[j][0];
          total[j][2] += LowFloat(scores) * sum[j][2];
        }
        if (rows >> row & 2) {
          total[j][1] += HighFloat(scores) * sum[j][1];
          total[j][3] += HighFloat(scores) * sum[j][3];
        }
      }
    } else {
#pragma unroll
      for (int q = 0; q < NT; ++q) {
        if (8 * q >= __popc(rows)) break;
#pragma unroll
        for (int j = 0; j < NT; ++j) {
          const int row = 8 * j + 2 * (c.lane & 3);
          const uint32_t scores = c.smem.template Scores<NT>(of, row);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int rank = __popc(rows & ((1u << (row + e)) - 1)) - 8 * q;
            const int from = (c.lane & ~3) | (rank >> 1 & 3);
            const float low0 = __shfl_sync(~0u, sum[q][0], from),
                        high0 = __shfl_sync(~0u, sum[q][1], from),
                        low1 = __shfl_sync(~0u, sum[q][2], from),
                        high1 = __shfl_sync(~0u, sum[q][3], from);
            if (!(rows >> (row + e) & 1) || rank < 0 || rank >= 8) continue;
            const float score = e == 0 ? LowFloat(scores) : HighFloat(scores);
            total[j][e] += score * (rank & 1 ? high0 : low0);
            total[j][2 + e] += score * (rank & 1 ? high1 : low1);
          }
        }
      }
    }
  }
  __device__ void HandOver(float (&total)[NT][4]) {
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      c.SharedTileDone(total[j]);
#pragma unroll
      for (int i = 0; i < 4; ++i) total[j][i] = 0.0f;
    }
  }
  __device__ void Run() {
    float total[NT][4] = {};
    c.landed = false;
    if (slice_count == 0) {
      for (uint32_t tile = c.task().begin; tile < c.task().end; tile += 2) HandOver(total);
      return;
    }
    Accumulator<NT> acc;
    acc.Clear();
#pragma unroll
    for (int d = 0; d < kAhead; ++d) {
      chunk[d] = Ask(d);
      AsyncCopyCommit();
    }
    c.InjectWarpDelay();
#pragma unroll 1
    for (int place = 0;; place ^= 1) {
      const uint32_t now = place ? chunk[1] : chunk[0];
      if (now == kNoChunk) return;
      const bool half = now & kHalf;
      const int step_bytes = half ? 256 : 512;
      const char* a = c.Acquire(true) + c.warp * step_bytes + c.lane * (half ? 8 : 16);
      AsyncCopyWaitAllBut<kAhead - 1>();
      __syncwarp();
      const char* b_at[NT];
#pragma unroll
      for (int j = 0; j < NT; ++j)
        b_at[j] = Staged(place, 0) + c.lane * 8 + j * c.p.smem.xs_row_bytes;
      const int row_tiles =
          kGathers<NT> && down ? TilesFor(__popc(RowsOf(now >> kSliceShift))) : NT;
      // One after the other lie the k-steps of eight warps, as in xs.
      c.template MultiplyChunk<kMmaWarps, true>(a, b_at, 0, now & 0xff, kMmaWarps * step_bytes,
                                                half, row_tiles, acc);
      c.template Release<kMmaWarps>();
      const uint32_t next = Ask(place);
      AsyncCopyCommit();
      (place ? chunk[1] : chunk[0]) = next;
      if (!(now & kEndsSlice)) continue;
      AddScaled(now >> kSliceShift, acc, total);
      acc.Clear();
      if (!(now & kEndsTile)) continue;
      HandOver(total);
    }
  }
};

}  // namespace baton::cuda
