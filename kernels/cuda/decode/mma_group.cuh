// The MMA warps: every weight byte passes through them. They normalise x on load, multiply tiles
// and hand each to the epilogue warps as eight partial sums.
//
// Numbers: warp w takes the k-steps s with s % 8 == w of every tile, in ascending order, by turns
// into two float32 accumulators, which are added at the tile's end; the eight warps' sums are added
// in warp order. Neither the batch, nor the row's slot, nor the slot size changes the order, so a
// row's results are bit-identical in any batch.
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
  uint32_t static_taken = 0, routed_taken = 0;  // Chunks taken from each queue.
  uint32_t tiles = 0;                           // Tiles handed to the epilogue.
  int peeked_queue = -1;                        // Queue whose next chunk is known to be there, and
  uint32_t peeked_slot = 0;                     // its slot.

  using WorkerGroup::WorkerGroup;

  // --- Chunks.
  __device__ const char* Acquire(int q) {
    const uint32_t taken = q == kStaticQueue ? static_taken : routed_taken;
    uint32_t slot = peeked_slot;
    if (peeked_queue != q) {
      const uint32_t entry = taken & 15;
      const uint32_t barrier = SmemAddress(&misc.full[q][entry]);
      if (!BarrierTest(barrier, taken >> 4 & 1)) {
        const long long start = clock64();
        WaitBarrier(p, misc, Here(), barrier, taken >> 4 & 1, kWaitRing);
        if (tid == 0) misc.wait_memory += clock64() - start;
      }
      slot = *const_cast<volatile uint8_t*>(&misc.slot[q][entry]);
    }
    // The next chunk's state is read now, behind this one's loads.
    const uint32_t next = taken + 1;
    const bool ready = BarrierTest(SmemAddress(&misc.full[q][next & 15]), next >> 4 & 1);
    peeked_slot = *const_cast<volatile uint8_t*>(&misc.slot[q][next & 15]);
    peeked_queue = ready ? q : -1;
    return smem.slot(slot);
  }
  __device__ void Release(int q) {
    const uint32_t taken = q == kStaticQueue ? static_taken++ : routed_taken++;
    __syncwarp();
    if (lane == 0) BarrierArrive(SmemAddress(&misc.empty[q][taken & 15]));
  }

  // Hands a tile's sums to the epilogue warps.
  __device__ void TileDone(const float (&sum)[NT][4]) {
    const int stage = tiles % kStages<NT>;
    const uint32_t parity = tiles / kStages<NT> & 1;
    WaitBarrier(p, misc, Here(), SmemAddress(&misc.partial_empty[stage]), parity ^ 1, kWaitTile);
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      float4* to =
          reinterpret_cast<float4*>(smem.reduce() + ((stage * kMmaWarps + warp) * NT + j) * 128) +
          lane;
      *to = make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
    }
    __syncwarp();
    if (lane == 0) BarrierArrive(SmemAddress(&misc.partial_full[stage]));
    ++tiles;
  }
  __device__ void TileDone(const Accumulator<NT>& acc) {
    float sum[NT][4];
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[j][i] = acc.even[j][i] + acc.odd[j][i];
    TileDone(sum);
  }

  // acc += W . xs for kCount k-steps of this warp at once; a, b: this lane's operands of the first.
  template <int kCount>
  __device__ void MultiplyBlock(const char* a, const char* b, int stride, bool half,
                                uint32_t tile_mask, Accumulator<NT>& acc) {
    const int row = p.smem.xs_row_bytes;
    uint4 fa[kCount];
    uint2 fb[kCount][NT];
    LoadA<kCount>(a, stride, half, fa);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < NT; ++j)
        fb[i][j] = *reinterpret_cast<const uint2*>(b + i * (kMmaWarps * 256) + j * row);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        if (NT == 1 || tile_mask >> j & 1)
          Mma16(i % 2 == 0 ? acc.even[j] : acc.odd[j], fa[i], fb[i][j]);
      }
    }
  }

  // The same for `count` k-steps of this warp: of a chunk.
  __device__ void MultiplyChunk(const char* a, const char* b, int count, int stride, bool half,
                                uint32_t tile_mask, Accumulator<NT>& acc) {
    constexpr int kBlock = NT == 1 ? 8 : 4;
    if (NT <= 2 && count == 6) {  // The usual chunk of 16-row tiles.
      MultiplyBlock<6>(a, b, stride, half, tile_mask, acc);
      return;
    }
    if (count == kBlock) {
      MultiplyBlock<kBlock>(a, b, stride, half, tile_mask, acc);
      return;
    }
#pragma unroll 1
    for (; count >= kBlock; count -= kBlock) {
      MultiplyBlock<kBlock>(a, b, stride, half, tile_mask, acc);
      a += kBlock * stride;
      b += kBlock * kMmaWarps * 256;
    }
    if (kBlock > 4 && count >= 4) {
      MultiplyBlock<4>(a, b, stride, half, tile_mask, acc);
      count -= 4;
      a += 4 * stride;
      b += 4 * kMmaWarps * 256;
    }
    if (count >= 2) {
      MultiplyBlock<2>(a, b, stride, half, tile_mask, acc);
      count -= 2;
      a += 2 * stride;
      b += 2 * kMmaWarps * 256;
    }
    if (count > 0) {
      MultiplyBlock<1>(a, b, stride, half, tile_mask, acc);
      acc.Swap();
    }
  }

  // acc += W_tile . xs for one tile; row tiles not in `tile_mask` are skipped.
  __device__ void MultiplyTile(int q, int step_bytes, int chunk_steps, bool half,
                               uint32_t tile_mask, Accumulator<NT>& acc) {
    const int steps = p.hidden / 16;
    const int offset = warp * step_bytes + (half ? lane * 8 : min(lane * 16, step_bytes - 16));
    const char* b = smem.xs() + (warp * 32 + lane) * 8;
#pragma unroll 1
    for (int first = 0; first < steps; first += chunk_steps) {
      const char* a = Acquire(q) + offset;
      const int count = (min(chunk_steps, steps - first) - warp + kMmaWarps - 1) / kMmaWarps;
      MultiplyChunk(a, b + first * 256, count, kMmaWarps * step_bytes, half, tile_mask, acc);
      Release(q);
    }
  }
};

// Row tiles of 8 of which some row is in `mask`.
template <int NT>
__device__ uint32_t TileMask(uint32_t mask) {
  uint32_t tiles = 0;
#pragma unroll
  for (int j = 0; j < NT; ++j) tiles |= (mask >> (8 * j) & 0xff ? 1u : 0u) << j;
  return tiles;
}

// Router, QkvRope, GateUp and LmHead: W . xs over the owned rows, tile by tile.
template <int NT>
__device__ void MultiplyRows(MmaGroup<NT>& c) {
  const DecodeParams& p = c.p;
  const bool gate_up = c.task.op == OpKind::kGateUp;
  const int owned = c.task.end - c.task.begin;
  int slice = 0, slice_end = 1;
  if (gate_up) {
    const uint32_t waited = c.WaitRouting();
    if (c.tid == 0) c.misc.wait_routing += waited;
    const SliceRange slices = TaskSlices(c.task, c.layer(), c.ActiveCount());
    slice = slices.begin;
    slice_end = slices.end;
  }
#pragma unroll 1
  for (; slice < slice_end; ++slice) {
    uint32_t tile_mask = ~0u;
    if (NT > 1 && gate_up && slice < c.ActiveCount())
      tile_mask = TileMask<NT>(c.smem.row_mask()[c.smem.active_id()[slice]]);
#pragma unroll 1
    for (int left = owned; left > 0; left -= gate_up ? 8 : 2) {
      const int rows = min(left, 8);
      const bool half = !gate_up && left < 2;
      const int step_bytes = gate_up ? 64 * rows : half ? 256 : 512;
      const int chunk_steps =
          gate_up ? p.smem.chunks.gate_up[rows] : p.smem.chunks.hidden[half ? 0 : 1];
      Accumulator<NT> acc;
      acc.Clear();
      c.MultiplyTile(gate_up ? kRoutedQueue : kStaticQueue, step_bytes, chunk_steps, half,
                     tile_mask, acc);
      c.TileDone(acc);
    }
  }
}

// OutputProj and Down: W . b over the owned rows, tile by tile, slice by slice, chunk by chunk; b
// is a fragment buffer in global memory. A chunk's fragments are copied two chunks ahead to where
// xs was, every warp into the k-steps of xs that are its own: nobody else reads or writes them.
// Down applies the rows' scores to each slice's product in float32, in ascending expert id.
template <int NT>
struct GlobalRows {
  static constexpr int kMost = kMaxChunkSteps / kMmaWarps;  // K-steps of a chunk and warp.
  static constexpr int kAhead = kXsSteps / kMmaWarps / kMost;
  static_assert(kAhead == 2);
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
  uint32_t columns = 0;  // Rows of the batch that the slice is for.
  uint32_t chunk[kAhead];

  __device__ explicit GlobalRows(MmaGroup<NT>& group)
      : c(group),
        down(group.task.op == OpKind::kDown),
        active_count(group.ActiveCount()),
        slice_count(down ? TaskSlices(group.task, group.layer(), active_count).end : 1),
        hidden(group.p.hidden_act + group.task.buffer_epoch * group.p.hidden_copy_bytes),
        unit(slice_count > 0 ? group.task.begin : group.task.end) {
    StartSlice();
  }
  __device__ bool Half() const { return unit + 1 == c.task.end; }
  __device__ void StartSlice() {
    first = 0;
    const ChunkTable& chunks = c.p.smem.chunks;
    const int full = Half() ? 0 : 1;
    columns = c.misc.active_rows;
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
      if (slice < slice_count) columns = c.smem.row_mask()[c.smem.active_id()[slice]];
    }
  }
  // Where this warp's fragments of k-step i of the chunk in `place` lie.
  __device__ char* Staged(int place, int i) const {
    return c.smem.xs() + ((place * kMost + i) * kMmaWarps + c.warp) * 256;
  }
  // Starts the copy of the next chunk's fragments; rows that the slice is not for become zero.
  __device__ uint32_t Ask(int place) {
    if (unit >= c.task.end) return kNoChunk;
    const int count = (min(chunk_steps, steps - first) - c.warp + kMmaWarps - 1) / kMmaWarps;
    const int part = c.lane & 15;  // 16 bytes: two neighbouring lanes' of one column.
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int bytes = columns >> (8 * j + (part >> 1)) & 1 ? 16 : 0;
      const char* from = b + (j * steps + first + c.warp) * 256 + part * 16;
#pragma unroll
      for (int i = 0; i < kMost; i += 2) {
        const int step = i + (c.lane >> 4);
        if (step < count) {
          AsyncCopyOrZero16(
              SmemAddress(Staged(place, step)) + j * c.p.smem.xs_row_bytes + part * 16,
              from + step * (kMmaWarps * 256), bytes);
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
  __device__ void AddScaled(int of, const Accumulator<NT>& acc, float (&total)[NT][4]) const {
    const bool plain = !down || of == active_count;
    const int id = plain ? 0 : c.smem.active_id()[of];
    const uint32_t mask = plain ? ~0u : c.smem.row_mask()[id];
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int column = 8 * j + 2 * (c.lane & 3);
      uint32_t scores = 0x3f803f80u;
      if (!plain)
        scores = *reinterpret_cast<const uint32_t*>(c.smem.score() + id * 8 * NT + column);
      // A row that did not choose the expert is left out, not scaled by zero.
      if (mask >> column & 1) {
        total[j][0] += LowFloat(scores) * (acc.even[j][0] + acc.odd[j][0]);
        total[j][2] += LowFloat(scores) * (acc.even[j][2] + acc.odd[j][2]);
      }
      if (mask >> column & 2) {
        total[j][1] += HighFloat(scores) * (acc.even[j][1] + acc.odd[j][1]);
        total[j][3] += HighFloat(scores) * (acc.even[j][3] + acc.odd[j][3]);
      }
    }
  }
  __device__ void Run() {
    float total[NT][4] = {};
    if (slice_count == 0) {
      for (uint32_t tile = c.task.begin; tile < c.task.end; tile += 2) c.TileDone(total);
      return;
    }
    const int q = down ? kRoutedQueue : kStaticQueue;
    Accumulator<NT> acc;
    acc.Clear();
#pragma unroll
    for (int d = 0; d < kAhead; ++d) {
      chunk[d] = Ask(d);
      AsyncCopyCommit();
    }
#pragma unroll 1
    for (int place = 0;; place ^= 1) {
      const uint32_t now = place ? chunk[1] : chunk[0];
      if (now == kNoChunk) return;
      const bool half = now & kHalf;
      const int step_bytes = half ? 256 : 512;
      const char* a = c.Acquire(q) + c.warp * step_bytes + c.lane * (half ? 8 : 16);
      AsyncCopyWaitAllBut<kAhead - 1>();
      __syncwarp();
      c.MultiplyChunk(a, Staged(place, 0) + c.lane * 8, now & 0xff, kMmaWarps * step_bytes, half,
                      ~0u, acc);
      c.Release(q);
      const uint32_t next = Ask(place);
      AsyncCopyCommit();
      (place ? chunk[1] : chunk[0]) = next;
      if (!(now & kEndsSlice)) continue;
      AddScaled(now >> kSliceShift, acc, total);
      acc.Clear();
      if (!(now & kEndsTile)) continue;
      c.TileDone(total);
#pragma unroll
      for (int j = 0; j < NT; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) total[j][i] = 0.0f;
    }
  }
};

}  // namespace baton::cuda
