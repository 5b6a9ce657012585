// Down with more than eight rows: W . hidden over the owned rows, tile by tile, slice by slice of
// the active list, by all MMA warps together; the rows' scores are applied to each slice's product
// in float32, in ascending expert id.
//
// A slice has few of the rows, so these are gathered into as few columns as hold them. What a slice
// costs beside its products every warp would pay: a loader warp finds out about it and brings its
// rows' operands, some slices ahead, to where xs was; sums over slices lie there, too.
#pragma once

#include "kernels/cuda/decode/loader.cuh"
#include "kernels/cuda/decode/mma_group.cuh"

namespace baton::cuda {

inline constexpr int kRowStep = 32;  // Bytes of one row's k-step.

// The part of xs that holds a warp's sums, [8 NT rows][16 outputs]; operands come after all warps'.
template <int NT>
inline constexpr int kTotalBytes = 8 * NT * 16 * 4;
static_assert(kMmaWarps * kTotalBytes<1> + 8 * (kMaxSharedSteps | 1) * kRowStep <= kXsSteps * 256,
              "a block of all rows has room");

// What most slices are at North Mini Code's geometry, and how many k-steps a chunk of it has.
inline constexpr int kUsualSteps = kMaxSharedSteps;
template <int NT, bool kHalf>
inline constexpr int kUsualChunk = NT == 2 || kHalf ? kUsualSteps : kUsualSteps / 2;

// Brings the operands of Down's slices, block by block.
template <int NT>
struct OperandLoader : WorkerGroup<kOperandRole, 32> {
  RingPlace next;        // The next block's.
  int in_use = 0;        // Blocks, at most.
  uint32_t brought = 0;  // Blocks so far.
  uint32_t head = 0;     // Of the room, in bytes: it goes round.
  uint32_t tasks = 0;    // Of Down so far.

  using WorkerGroup::WorkerGroup;

  __device__ bool Stopping() const { return __any_sync(~0u, Ending(misc)); }
  __device__ uint32_t Room() const { return p.smem.operand_bytes; }
  // The place of the oldest block in use.
  __device__ RingPlace Oldest() const {
    const bool wraps = next.slot < in_use;
    return {next.slot - in_use + (wraps ? kOperandPlaces : 0), next.phase ^ uint32_t(wraps)};
  }
  __device__ void DropOldest() {
    const RingPlace oldest = Oldest();
    Wait(misc.operands_empty[oldest.slot], oldest.phase, kWaitLoader);
    --in_use;
  }
  // Makes room for `bytes` that lie together, at `head`.
  __device__ void MakeRoom(uint32_t bytes) {
    if (in_use == kOperandPlaces) DropOldest();
    for (; in_use > 0; DropOldest()) {
      const uint32_t tail = misc.operands[Oldest().slot].at - Begin();
      if (head > tail ? head + bytes <= Room() : head + bytes < tail) return;
      if (head > tail && bytes < tail) break;
    }
    if (head + bytes > Room() || in_use == 0) head = 0;
  }
  __device__ uint32_t Begin() const { return p.smem.xs + kMmaWarps * kTotalBytes<NT>; }
  __device__ void Bring(const char* from, int steps, int first, const OperandBlock& block) {
    MakeRoom(block.rows * block.pitch);
    if (Stopping()) return;
    if (lane == 0) {
      OperandBlock& to = misc.operands[next.slot];
      to = block;
      to.at = Begin() + head;
      BarrierExpect(SmemAddress(&misc.operands_full[next.slot]),
                    block.rows * block.steps * kRowStep);
    }
    __syncwarp();
    if (lane < block.rows) {
      BulkLoad(SmemAddress(smem.base + Begin() + head + lane * block.pitch),
               from + uint64_t(smem.slice_rows()[block.first + lane] * steps + first) * kRowStep,
               block.steps * kRowStep, SmemAddress(&misc.operands_full[next.slot]));
    }
    __syncwarp();
    head += block.rows * block.pitch;
    next.Advance(kOperandPlaces);
    ++in_use;
    ++brought;
  }
  __device__ void RunTask() {
    // The MMA warps have waited for the counter then: it need not be polled here.
    Wait(misc.xs_free, tasks++ & 1, kWaitLoader);
    WaitRouting();
    WaitTask();
    ProxyFenceAll();
    const int active_count = ActiveCount();
    const int slice_count = TaskSlices(task(), layer(), active_count).end;
    const char* hidden = p.hidden_act + task().buffer_epoch * p.hidden_copy_bytes;
#pragma unroll 1
    for (uint32_t unit = task().begin; unit < task().end; unit += 2) {
      const int full = unit + 1 == task().end ? 0 : 1;
#pragma unroll 1
      for (int slice = 0; slice < slice_count; ++slice) {
        const bool always = slice == active_count;
        const Slice of = smem.slices()[slice];
        const int steps = (always ? layer().always_width : layer().expert_width) / 16;
        OperandBlock block;
        block.first = of.first;
        block.rows = __popc(of.rows);
        block.chunk_steps =
            always ? layer().always_chunk[NT - 1][full] : p.smem.chunks.expert_width[full];
        const char* from =
            hidden + (always ? p.hidden_always_offset : slice * p.hidden_slice_bytes);
        const int most =
            2 * block.chunk_steps <= kMaxSharedSteps ? 2 * block.chunk_steps : block.chunk_steps;
#pragma unroll 1
        for (int first = 0; first < steps; first += most) {
          block.steps = min(most, steps - first);
          // Rows an odd number of k-steps apart, for the sake of banks.
          block.pitch = (block.steps | 1) * kRowStep;
          block.ends_slice = first + most >= steps;
          block.ends_tile = block.ends_slice && slice + 1 == slice_count;
          block.usual =
              steps == kUsualSteps && block.rows <= 8 &&
              block.chunk_steps == (full ? kUsualChunk<NT, false> : kUsualChunk<NT, true>);
          Bring(from, steps, first, block);
        }
      }
    }
  }
  __device__ void Run() {
    while (Next() && !Stopping()) {
      if (task().op == OpKind::kDown) RunTask();
    }
    Finish();
    Drain();
  }
  // The block must not end before its copies have landed, whatever else happened: after an abort,
  // also of what counts as used no more.
  __device__ void Drain() {
    for (uint32_t i = min(brought, uint32_t(kOperandPlaces)); i > 0; --i) {
      next.Retreat(kOperandPlaces);
      while (!BarrierTryWait(SmemAddress(&misc.operands_full[next.slot]), next.phase)) {
      }
    }
  }
};

template <int NT>
struct DownRows {
  static constexpr int kStride = kMmaWarps * kRowStep;  // From one k-step of a warp to the next.

  MmaGroup<NT>& c;
  const int warp, lane;
  float* const totals;  // Of this warp: [row][16 outputs].
  RingPlace next;       // Of the next block.

  __device__ explicit DownRows(MmaGroup<NT>& group)
      : c(group),
        warp(Opaque(group.warp)),  // Addresses worked out ahead of the task would fill registers.
        lane(Opaque(group.lane)),
        totals(reinterpret_cast<float*>(group.smem.xs() + warp * kTotalBytes<NT>)),
        next(group.misc.operand_cursors[warp]) {}

  // Where row tile j's column of this lane begins in the block. What columns hold beyond the rows
  // does not matter: columns do not mix.
  __device__ const char* Column(const OperandBlock& block, int j) const {
    return c.smem.base + block.at + min(8 * j + (lane >> 2), block.rows - 1) * block.pitch +
           warp * kRowStep + (lane & 3) * 8;
  }
  // Waits for the next block. False: the step is ending, and what is there may be no block.
  __device__ bool Take(OperandBlock& block) const {
    const uint64_t& full = c.misc.operands_full[next.slot];
    if (!__all_sync(~0u, BarrierTest(SmemAddress(&full), next.phase))) {
      c.Wait(full, next.phase, kWaitRing);
      if (__any_sync(~0u, Ending(c.misc))) return false;
    }
    const uint4 words = *reinterpret_cast<const uint4*>(&c.misc.operands[next.slot]);
    memcpy(&block, &words, sizeof(block));
    return true;
  }
  // All lanes have read the block's operands.
  __device__ void Give() {
    __syncwarp();
    WarpArrive(c.misc.operands_empty[next.slot], lane == 0);
    next.Advance(kOperandPlaces);
  }
  // totals += scores * (W . b) of a usual block: what AnySlice does, with every load on its way
  // before the first product, and nothing to find out.
  template <bool kHalf>
  __device__ void UsualSlice(const OperandBlock& block) {
    constexpr int kChunk = kUsualChunk<NT, kHalf>, kOwn = kChunk / kMmaWarps;
    constexpr int kChunks = kUsualSteps / kChunk, kStepBytes = kHalf ? 256 : 512;
    const char* const b = Column(block, 0);
    uint2 fb[kChunks * kOwn];
#pragma unroll
    for (int i = 0; i < kChunks * kOwn; ++i)
      fb[i] = *reinterpret_cast<const uint2*>(b + i * kStride);
    // Of this lane's two columns, which may be beyond the rows; those are not written.
    const int column = 2 * (lane & 3);
    float score[2], total[2][2];
    float* to[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int place = block.first + min(column + e, block.rows - 1);
      score[e] = Bf16BitsToFloat(c.smem.slice_scores()[place]);
      to[e] = totals + c.smem.slice_rows()[place] * 16 + (lane >> 2);
    }
    uint4 fa[kChunks][kOwn];
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const char* a = c.AcquireShared() + warp * kStepBytes + lane * (kHalf ? 8 : 16);
      LoadA<kOwn>(a, kMmaWarps * kStepBytes, kHalf, fa[chunk]);
      c.template Release<kMmaWarps>();
    }
    Give();
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      total[e][0] = to[e][0];
      total[e][1] = to[e][8];
    }
    float even[4] = {}, odd[4] = {};
#pragma unroll
    for (int i = 0; i < kChunks * kOwn; ++i)
      Mma16(i % 2 == 1 ? odd : even, fa[i / kOwn][i % kOwn], fb[i]);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (column + e >= block.rows) continue;
      to[e][0] = total[e][0] + score[e] * (even[e] + odd[e]);
      to[e][8] = total[e][1] + score[e] * (even[2 + e] + odd[2 + e]);
    }
    __syncwarp();  // A row may be another lane's in the next slice.
  }
  // acc += W . b of any block; `odd`: its first k-step is the other accumulator's. Returns whether
  // the next one is.
  __device__ bool MultiplyAny(const OperandBlock& block, bool half, bool odd,
                              Accumulator<NT>& acc) {
    const char* b[NT];
#pragma unroll
    for (int j = 0; j < NT; ++j) b[j] = Column(block, j);
    const uint32_t row_tiles = (1u << TilesFor(block.rows)) - 1;
    uint32_t at = 0;
#pragma unroll 1
    for (int left = block.steps; left > 0; left -= block.chunk_steps) {
      const int count = OwnSteps(min(int(block.chunk_steps), left), warp);
      const char* a = c.AcquireShared() + warp * (half ? 256 : 512) + lane * (half ? 8 : 16);
      if (half) {
        c.template MultiplyShared<kStride>(a, b, at, count, true, row_tiles, odd, acc);
      } else {
        c.template MultiplyShared<kStride>(a, b, at, count, false, row_tiles, odd, acc);
      }
      c.template Release<kMmaWarps>();
      at += count * kStride;
      odd ^= count & 1;
    }
    return odd;
  }
  // totals += scores * the slice's sums.
  __device__ void AddScaled(const OperandBlock& block, const Accumulator<NT>& acc) const {
    const uint8_t* rows = c.smem.slice_rows() + block.first;
    const uint16_t* scores = c.smem.slice_scores() + block.first;
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      if (8 * j >= block.rows) break;
      const int column = 8 * j + 2 * (lane & 3);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (column + e < block.rows) {
          const float score = Bf16BitsToFloat(scores[column + e]);
          float* to = totals + rows[column + e] * 16 + (lane >> 2);
          to[0] += score * (acc.even[j][e] + acc.odd[j][e]);
          to[8] += score * (acc.even[j][2 + e] + acc.odd[j][2 + e]);
        }
      }
    }
    __syncwarp();  // A row may be another lane's in the next slice.
  }
  // totals += scores * (W . b) of a slice, whose last block `block` becomes. False: the step is
  // ending.
  __device__ bool AnySlice(OperandBlock& block, bool half) {
    Accumulator<NT> acc;
    acc.Clear();
    bool odd = false;  // The next k-step is the other accumulator's.
    while (true) {
      odd = MultiplyAny(block, half, odd, acc);
      Give();
      if (block.ends_slice) break;
      if (!Take(block)) return false;
    }
    AddScaled(block, acc);
    return true;
  }
  __device__ void ClearTotals() const {
#pragma unroll
    for (int j = 0; j < NT; ++j)
      reinterpret_cast<float4*>(totals)[j * 32 + lane] = make_float4(0, 0, 0, 0);
    __syncwarp();
  }
  __device__ void HandOver() {
#pragma unroll 1
    for (int j = 0; j < NT; ++j) {
      const float* from = totals + (8 * j + 2 * (lane & 3)) * 16 + (lane >> 2);
      c.SharedTileDone({from[0], from[16], from[8], from[24]});
    }
    __syncwarp();
    ClearTotals();
  }
  __device__ void Run() {
    ClearTotals();
    ProxyFence();  // What comes to xs comes after what was done there.
    __syncwarp();
    WarpArrive(c.misc.xs_free, lane == 0);
    if (TaskSlices(c.task(), c.layer(), c.ActiveCount()).end == 0) {
      for (uint32_t unit = c.task().begin; unit < c.task().end; unit += 2) HandOver();
      return;
    }
    c.InjectWarpDelay();
    OperandBlock block;
#pragma unroll 1
    for (uint32_t unit = c.task().begin; unit < c.task().end;) {
      const bool half = unit + 1 == c.task().end;
      if (!Take(block)) break;
      if (block.usual && half) {
        UsualSlice<true>(block);
      } else if (block.usual) {
        UsualSlice<false>(block);
      } else if (!AnySlice(block, half)) {
        break;
      }
      if (!block.ends_tile) continue;
      HandOver();
      unit += 2;
    }
    __syncwarp();
    if (lane == 0) c.misc.operand_cursors[warp] = next;
  }
};

}  // namespace baton::cuda
