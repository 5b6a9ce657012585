// OutputProj and Down with up to eight rows: W . b over the owned rows, tile by tile, slice by
// slice, chunk by chunk, by all MMA warps together; b is a fragment buffer in global memory, of
// which every warp fetches the k-steps that are its own, ahead of their use.
#pragma once

#include "kernels/cuda/decode/mma_group.cuh"

namespace baton::cuda {

inline constexpr int kDirectSteps = kMaxSharedSteps / kMmaWarps;  // K-steps of a chunk and warp.

// acc += W . b for this warp's `count` k-steps of the chunk at `slot`; `operand` gives b's.
template <typename Operand>
__device__ __forceinline__ void MultiplyDirect(const MmaGroup<1>& c, const char* slot, bool half,
                                               int count, Operand&& operand, Accumulator<1>& acc) {
  const int stride = kMmaWarps * (half ? 256 : 512);
  const char* a = slot + c.warp * (half ? 256 : 512) + c.lane * (half ? 8 : 16);
  if (count == kDirectSteps) {  // The usual chunk.
    uint4 fa[kDirectSteps];
    LoadA<kDirectSteps>(a, stride, half, fa);
#pragma unroll
    for (int i = 0; i < kDirectSteps; ++i)
      Mma16(i % 2 == 0 ? acc.even[0] : acc.odd[0], fa[i], operand(i));
    return;
  }
#pragma unroll
  for (int i = 0; i < kDirectSteps; ++i) {
    if (i >= count) break;
    uint4 fa[1];
    LoadA<1>(a + i * stride, 0, half, fa);
    Mma16(i % 2 == 0 ? acc.even[0] : acc.odd[0], fa[0], operand(i));
  }
  if (count & 1) acc.Swap();
}

// OutputProj. Its operand comes as packets, asked for a chunk ahead.
__device__ __forceinline__ void MultiplyAttention(MmaGroup<1>& c) {
  const DecodeParams& p = c.p;
  const int steps = p.q_width / 16;
  const bool live = c.RowActive(c.lane >> 2);
  const uint32_t epoch = c.Epoch(c.task().layer);
  const char* const own = p.attention + (c.warp * 32 + c.lane) * 16;
  ulonglong2 packets[kDirectSteps];
  const auto own_steps = [&](int of) { return max(0, (of - c.warp + kMmaWarps - 1) / kMmaWarps); };
  const auto ask = [&](int first, int count) {
#pragma unroll
    for (int i = 0; i < kDirectSteps; ++i)
      packets[i] = LoadRelaxedPairIf(live && i < count, own + (first + i * kMmaWarps) * 512);
  };
  const auto arrived = [&](int count) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < kDirectSteps; ++i) all &= i >= count || Has(packets[i], epoch);
    return all || !live;
  };
  c.landed = false;
#pragma unroll 1
  for (uint32_t unit = c.task().begin; unit < c.task().end; unit += 2) {
    const bool half = unit + 1 == c.task().end;
    const int chunk_steps = p.smem.chunks.q_width[half ? 0 : 1];
    Accumulator<1> acc;
    acc.Clear();
    int count = own_steps(min(chunk_steps, steps));
    ask(0, count);
#pragma unroll 1
    for (int first = 0; first < steps; first += chunk_steps) {
      if (!__all_sync(~0u, arrived(count))) {
        const long long begin = clock64();
        c.WaitPackets(c.task().waits[0].counter, [&] {
          ask(first, count);
          return arrived(count);
        });
        if (c.tid == 0) c.misc.wait_other += clock64() - begin;
      }
      if (first == 0) c.Trace(1);
      uint2 b[kDirectSteps];
#pragma unroll
      for (int i = 0; i < kDirectSteps; ++i)
        b[i] = make_uint2(uint32_t(packets[i].x), uint32_t(packets[i].y));
      const int now = count, next = first + chunk_steps;
      count = own_steps(min(chunk_steps, steps - next));
      if (next < steps) ask(next, count);
      MultiplyDirect(
          c, c.Acquire(next < steps), half, now, [&](int i) { return b[i]; }, acc);
      c.Release<kMmaWarps>();
    }
    float sum[1][4];
    acc.Sum(sum);
    c.SharedTileDone(sum[0]);
  }
}

// Down: slice by slice of the active list; applies the rows' scores to each slice's product in
// float32, in ascending expert id. Operands are copied three chunks ahead to where xs was, by every
// warp for itself.
struct DownRows {
  // A chunk whose operands were asked for: its info is the k-steps of this warp, flags, and the
  // rows of the batch that the slice is for.
  struct Chunk {
    uint32_t info;
    uint32_t scores;  // bf16 of this lane's two columns.
  };
  static constexpr uint32_t kNoChunk = ~0u, kCount = 0xf, kHalf = 1u << 4, kEndsSlice = 1u << 5,
                            kEndsTile = 1u << 6;
  static constexpr int kLiveShift = 8;
  static constexpr int kPlaceBytes = kDirectSteps * 256;  // Of a warp.
  static constexpr int kAhead = 3;                        // Chunks.
  static_assert(kAhead * kMmaWarps * kPlaceBytes <= kXsStepsOne * 256);

  MmaGroup<1>& c;
  const int active_count, slice_count;
  // The next chunk to ask for.
  uint32_t unit;
  int slice = 0, first = 0, steps = 0, chunk_steps = 0;
  const char* b = nullptr;
  uint32_t live = 0, scores = 0;
  // Of 32 slices, one a lane: expert id << 16 | rows that chose it.
  uint32_t listed = 0;

  __device__ explicit DownRows(MmaGroup<1>& group)
      : c(group),
        active_count(group.ActiveCount()),
        slice_count(TaskSlices(group.task(), group.layer(), active_count).end),
        unit(slice_count > 0 ? group.task().begin : group.task().end) {
    if (unit < c.task().end) StartSlice();
  }
  __device__ bool Half() const { return unit + 1 == c.task().end; }
  __device__ void StartSlice() {
    first = 0;
    const int full = Half() ? 0 : 1;
    b = c.p.hidden_act + c.task().buffer_epoch * c.p.hidden_copy_bytes +
        (c.warp + (c.lane >> 4) * kMmaWarps) * 256 + (c.lane & 15) * 16;
    if (slice == active_count) {
      b += c.p.hidden_always_offset;
      steps = c.layer().always_width / 16;
      chunk_steps = c.layer().always_chunk[0][full];
      live = c.misc.active_rows;
      scores = 0x3f803f80u;
      return;
    }
    if ((slice & 31) == 0) {
      const int id = c.smem.active_id()[min(slice + c.lane, active_count - 1)];
      listed = id << 16 | c.smem.row_mask()[id];
    }
    const uint32_t of = __shfl_sync(~0u, listed, slice & 31);
    live = of & 0xff;
    scores = *reinterpret_cast<const uint32_t*>(c.smem.score() + (of >> 16) * 8 + 2 * (c.lane & 3));
    b += slice * c.p.hidden_slice_bytes;
    steps = c.layer().expert_width / 16;
    chunk_steps = c.p.smem.chunks.expert_width[full];
  }
  __device__ char* Place(int place) const {
    return c.smem.xs() + (place * kMmaWarps + c.warp) * kPlaceBytes;
  }
  __device__ void Ask(Chunk& chunk, int place) {
    chunk.info = kNoChunk;
    if (unit >= c.task().end) return;
    const int count =
        max(0, (min(chunk_steps, steps - first) - c.warp + kMmaWarps - 1) / kMmaWarps);
    // 16 bytes a lane: two neighbouring lanes' of one column. What the other rows' columns hold
    // does not matter: columns do not mix.
    const uint32_t to = SmemAddress(Place(place)) + c.lane * 16;
    const int wanted = live >> ((c.lane & 15) >> 1) & 1 ? count - (c.lane >> 4) : 0;
#pragma unroll
    for (int i = 0; i < kDirectSteps; i += 2) {
      if (i < wanted) AsyncCopy16(to + i * 256, b + i * (kMmaWarps * 256));
    }
    chunk.scores = scores;
    chunk.info = count | (Half() ? kHalf : 0) | live << kLiveShift;
    first += chunk_steps;
    b += chunk_steps * 256;
    if (first < steps) return;
    chunk.info |= kEndsSlice;
    if (++slice == slice_count) {
      chunk.info |= kEndsTile;
      slice = 0;
      unit += 2;
    }
    if (unit < c.task().end) StartSlice();
  }
  // Multiplies a chunk and asks in its place for the one kAhead later.
  __device__ void Step(Chunk& chunk, int place, Accumulator<1>& acc, float (&total)[1][4]) {
    const uint32_t now = chunk.info, scale = chunk.scores;
    const char* slot = c.Acquire(true);
    AsyncCopyWaitAllBut<kAhead - 1>();
    __syncwarp();
    const char* operand = Place(place) + c.lane * 8;
    MultiplyDirect(
        c, slot, now & kHalf, now & kCount,
        [&](int i) { return *reinterpret_cast<const uint2*>(operand + i * 256); }, acc);
    c.Release<kMmaWarps>();  // Also: all lanes have read the operands.
    Ask(chunk, place);
    AsyncCopyCommit();
    if (!(now & kEndsSlice)) return;
    // A row that did not choose the expert is left out, not scaled by zero.
    const uint32_t chosen = now >> kLiveShift >> (2 * (c.lane & 3));
    if (chosen & 1) {
      total[0][0] += LowFloat(scale) * (acc.even[0][0] + acc.odd[0][0]);
      total[0][2] += LowFloat(scale) * (acc.even[0][2] + acc.odd[0][2]);
    }
    if (chosen & 2) {
      total[0][1] += HighFloat(scale) * (acc.even[0][1] + acc.odd[0][1]);
      total[0][3] += HighFloat(scale) * (acc.even[0][3] + acc.odd[0][3]);
    }
    acc.Clear();
    if (!(now & kEndsTile)) return;
    c.SharedTileDone(total[0]);
    total[0][0] = total[0][1] = total[0][2] = total[0][3] = 0.0f;
  }
  __device__ void Run() {
    float total[1][4] = {};
    c.landed = false;
    if (slice_count == 0) {
      for (uint32_t tile = c.task().begin; tile < c.task().end; tile += 2)
        c.SharedTileDone(total[0]);
      return;
    }
    Accumulator<1> acc;
    acc.Clear();
    Chunk chunk[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      Ask(chunk[i], i);
      AsyncCopyCommit();
    }
#pragma unroll 1
    for (int place = 0; chunk[0].info != kNoChunk; place = place + 1 == kAhead ? 0 : place + 1) {
      Step(chunk[0], place, acc, total);
      const Chunk last = chunk[0];
#pragma unroll
      for (int i = 0; i + 1 < kAhead; ++i) chunk[i] = chunk[i + 1];
      chunk[kAhead - 1] = last;
    }
  }
};

}  // namespace baton::cuda
