// OutputProj and Down with up to eight rows: W . b over the owned rows, tile by tile, slice by
// slice, chunk by chunk, by all MMA warps together; b is a fragment buffer in global memory, of
// which every warp fetches the k-steps that are its own, ahead of their use.
#pragma once

#include "kernels/cuda/decode/mma_group.cuh"

namespace baton::cuda {

inline constexpr int kDirectSteps = kMaxSharedSteps / kMmaWarps;  // K-steps of a chunk and warp.

// acc += W . b for this warp's `count` k-steps of the chunk at `slot`, which is released; `operand`
// gives b's.
template <typename Operand>
__device__ __forceinline__ void MultiplyDirect(MmaGroup<1>& c, const char* slot, bool half,
                                               int count, Operand&& operand, Accumulator<1>& acc) {
  const int stride = kMmaWarps * (half ? 256 : 512);
  const char* a = slot + c.warp * (half ? 256 : 512) + c.lane * (half ? 8 : 16);
  if (count == kDirectSteps) {  // The usual chunk.
    uint4 fa[kDirectSteps];
    LoadA<kDirectSteps>(a, stride, half, fa);
    c.Release<kMmaWarps>();
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
  c.Release<kMmaWarps>();
}

// Operands lie where xs was. Every warp keeps to the k-steps of xs that are its own, s % 8 == w:
// when it is done, it writes the next x to them, whatever the others are still at.
inline constexpr int kOwnStride = kMmaWarps * 256;  // From one to the next.
__device__ __forceinline__ char* OwnXs(const MmaGroup<1>& c) { return c.smem.xs() + c.warp * 256; }

__device__ __forceinline__ int OnlyRow(const ControlSmem& misc) {
  return __ffs(misc.active_rows) - 1;
}

// With one active row: the operand's k-steps are 32 bytes each, so that all of them, of every
// slice, are asked for at once and have room where xs was, eight in place of each k-step of xs that
// is the warp's own.
struct OneRowOperand {
  static constexpr int kSteps = kXsStepsOne / kMmaWarps * 8;  // Of a warp, at most.
  const MmaGroup<1>& c;
  const int row;
  char* const own;  // Of this warp.

  __device__ explicit OneRowOperand(const MmaGroup<1>& group)
      : c(group), row(OnlyRow(group.misc)), own(OwnXs(group)) {}
  __device__ char* Place(int at) const { return own + (at >> 3) * kOwnStride + (at & 7) * 32; }
  // K-steps of `of` that are this warp's.
  __device__ int OwnSteps(int of) const {
    return max(0, (of - c.warp + kMmaWarps - 1) / kMmaWarps);
  }
  // B operand of the warp's k-step `at`; other rows' columns are zero.
  __device__ uint2 Operand(int at) const {
    const uint2 v = *reinterpret_cast<const uint2*>(Place(at) + (c.lane & 3) * 8);
    return c.lane >> 2 == row ? v : make_uint2(0, 0);
  }
  // Starts the copies of one row of a fragment buffer of `steps` k-steps, to k-step `at` on.
  __device__ void Ask(const char* buffer, int steps, int at) const {
    const char* from = buffer + c.warp * 256 + row * 32 + (c.lane & 1) * 16;
    const int count = OwnSteps(steps);
#pragma unroll 1
    for (int i = c.lane >> 1; i < count; i += 16)
      AsyncCopy16(SmemAddress(Place(at + i)) + (c.lane & 1) * 16, from + i * (kMmaWarps * 256));
  }
  // Multiplies one chunk, whose k-steps begin at the warp's `at`; returns where the next do.
  __device__ int Multiply(MmaGroup<1>& group, int chunk_steps, bool half, int at,
                          Accumulator<1>& acc) const {
    const int count = OwnSteps(chunk_steps);
    MultiplyDirect(
        group, group.AcquireShared(), half, count, [&](int i) { return Operand(at + i); }, acc);
    return at + count;
  }
};

// OutputProj with one active row (SoleRowPackets): the row's packets are spread over all lanes, so
// that one round trip fetches them.
__device__ __forceinline__ void OutputOneRow(MmaGroup<1>& c) {
  const DecodeParams& p = c.p;
  const OneRowOperand operand(c);
  const int steps = p.q_width / 16, own = operand.OwnSteps(steps), t = c.lane & 3;
  constexpr int kLoads = kMostOneRowSteps / 8;
  const uint32_t epoch = c.Epoch(c.task().layer);
  const char* from =
      p.attention_row + ((c.warp + (c.lane >> 2) * kMmaWarps) * 32 + operand.row * 4 + t) * 16;
  ulonglong2 packets[kLoads];
  const auto arrived = [&](int i) {
    return (c.lane >> 2) + i * 8 >= own || Has(packets[i], epoch);
  };
  const auto ask = [&](int i) {
    packets[i] = LoadRelaxedPairIf((c.lane >> 2) + i * 8 < own, from + i * (8 * kMmaWarps * 512));
  };
  const long long begin = clock64();
  // Before this worker's own part is there, most others' are not: to ask would take bandwidth. A
  // worker that has none may be told a layer too soon, and asks.
  c.Wait(c.misc.merged, c.task().layer & 1, kWaitTile);
  c.WaitPackets(c.task().waits[0].counter, [&] {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) ask(i);
    bool all = true;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) all &= arrived(i);
    return all;
  });
  c.Sync();  // All warps are done with xs.
  if (c.tid == 0) c.misc.wait_other += clock64() - begin;
  c.Trace(kTaskWaited);
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int at = (c.lane >> 2) + i * 8;
    if (at < own) {
      *reinterpret_cast<uint2*>(operand.Place(at) + t * 8) =
          make_uint2(uint32_t(packets[i].x), uint32_t(packets[i].y));
    }
  }
  __syncwarp();
#pragma unroll 1
  for (uint32_t unit = c.task().begin; unit < c.task().end; unit += 2) {
    const bool half = unit + 1 == c.task().end;
    const int chunk_steps = p.smem.chunks.q_width[half ? 0 : 1];
    Accumulator<1> acc;
    acc.Clear();
    int at = 0;
#pragma unroll 1
    for (int left = steps; left > 0; left -= chunk_steps)
      at = operand.Multiply(c, min(left, chunk_steps), half, at, acc);
    float sum[1][4];
    acc.Sum(sum);
    c.SharedTileDone(sum[0]);
  }
}

// OutputProj and Down with several rows. Down: slice by slice of the active list; it applies the
// rows' scores to each slice's product in float32, in ascending expert id. Operands are copied
// three chunks ahead to where xs was, by every warp for itself.
struct DirectRows {
  // A chunk whose operands were asked for: its info is the k-steps of this warp, flags, and the
  // rows of the batch that the slice is for.
  struct Chunk {
    uint32_t info;
    uint32_t scores;  // bf16 of this lane's two columns.
  };
  static constexpr uint32_t kNoChunk = ~0u, kCount = 0xf, kHalf = 1u << 4, kEndsSlice = 1u << 5,
                            kEndsTile = 1u << 6;
  static constexpr int kLiveShift = 8;
  static constexpr int kAhead = 3;  // Chunks.
  static_assert(kAhead * kMmaWarps * kDirectSteps <= kXsStepsOne);

  MmaGroup<1>& c;
  const bool down;
  const int active_count, slice_count;
  // The next chunk to ask for.
  uint32_t unit;
  int slice = 0, first = 0, steps = 0, chunk_steps = 0;
  const char* b = nullptr;
  uint32_t live = 0, scores = 0;

  __device__ explicit DirectRows(MmaGroup<1>& group)
      : c(group),
        down(group.task().op == OpKind::kDown),
        active_count(group.ActiveCount()),
        slice_count(down ? TaskSlices(group.task(), group.layer(), active_count).end : 1),
        unit(slice_count > 0 ? group.task().begin : group.task().end) {
    if (unit < c.task().end) StartSlice();
  }
  __device__ bool Half() const { return unit + 1 == c.task().end; }
  __device__ void StartSlice() {
    first = 0;
    const int full = Half() ? 0 : 1;
    b = (down ? c.p.hidden_act + c.task().buffer_epoch * c.p.hidden_copy_bytes : c.p.attention) +
        (c.warp + (c.lane >> 4) * kMmaWarps) * 256 + (c.lane & 15) * 16;
    if (!down) {
      live = c.misc.active_rows;
      scores = 0x3f803f80u;
      steps = c.p.q_width / 16;
      chunk_steps = c.p.smem.chunks.q_width[full];
      return;
    }
    live = c.smem.slices()[slice].rows;
    scores = c.smem.Scores(slice, 2 * (c.lane & 3));
    if (slice == active_count) {
      b += c.p.hidden_always_offset;
      steps = c.layer().always_width / 16;
      chunk_steps = c.layer().always_chunk[0][full];
      return;
    }
    b += slice * c.p.hidden_slice_bytes;
    steps = c.layer().expert_width / 16;
    chunk_steps = c.p.smem.chunks.expert_width[full];
  }
  __device__ char* Place(int place) const { return OwnXs(c) + place * kDirectSteps * kOwnStride; }
  __device__ void Ask(Chunk& chunk, int place) {
    chunk.info = kNoChunk;
    if (unit >= c.task().end) return;
    const int count =
        max(0, (min(chunk_steps, steps - first) - c.warp + kMmaWarps - 1) / kMmaWarps);
    // 16 bytes a lane: two neighbouring lanes' of one column. What the other rows' columns hold
    // does not matter: columns do not mix.
    const uint32_t to = SmemAddress(Place(place)) + (c.lane >> 4) * kOwnStride + (c.lane & 15) * 16;
    const int wanted = live >> ((c.lane & 15) >> 1) & 1 ? count - (c.lane >> 4) : 0;
#pragma unroll
    for (int i = 0; i < kDirectSteps; i += 2) {
      if (i < wanted) AsyncCopy16(to + i * kOwnStride, b + i * (kMmaWarps * 256));
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
    const char* slot = c.AcquireShared();
    AsyncCopyWaitAllBut<kAhead - 1>();
    __syncwarp();
    const char* operand = Place(place) + Opaque(c.lane) * 8;
    MultiplyDirect(
        c, slot, now & kHalf, now & kCount,
        [&](int i) { return *reinterpret_cast<const uint2*>(operand + i * kOwnStride); }, acc);
    __syncwarp();  // All lanes have read the operands.
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
    c.InjectWarpDelay();
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

// Down with one active row, whose experts' operands all have room: see OneRowOperand.
__device__ __forceinline__ bool FitsOneRow(const MmaGroup<1>& c) {
  const int slices = c.ActiveCount(), expert = c.layer().expert_width / 16,
            always = c.layer().always_width / 16;
  const auto most = [](int steps) { return (steps + kMmaWarps - 1) / kMmaWarps; };
  return __popc(c.misc.active_rows) == 1 &&
         slices * most(expert) + most(always) <= OneRowOperand::kSteps;
}
__device__ __forceinline__ void DownOneRow(MmaGroup<1>& c) {
  const OneRowOperand operand(c);
  const int active_count = c.ActiveCount();
  const int slice_count = TaskSlices(c.task(), c.layer(), active_count).end;
  const char* hidden = c.p.hidden_act + c.task().buffer_epoch * c.p.hidden_copy_bytes;
  const int expert_steps = c.layer().expert_width / 16, own = operand.OwnSteps(expert_steps);
#pragma unroll 1
  for (int slice = 0; slice < active_count; ++slice)
    operand.Ask(hidden + slice * c.p.hidden_slice_bytes, expert_steps, slice * own);
  if (slice_count > active_count) {
    operand.Ask(hidden + c.p.hidden_always_offset, c.layer().always_width / 16, active_count * own);
  }
  AsyncCopyWait();
  c.InjectWarpDelay();
  __syncwarp();
#pragma unroll 1
  for (uint32_t unit = c.task().begin; unit < c.task().end; unit += 2) {
    const int full = unit + 1 == c.task().end ? 0 : 1;
    float total[4] = {};
    int at = 0;
#pragma unroll 1
    for (int slice = 0; slice < slice_count; ++slice) {
      const bool always = slice == active_count;
      const int steps = always ? c.layer().always_width / 16 : expert_steps;
      const int chunk_steps =
          always ? c.layer().always_chunk[0][full] : c.p.smem.chunks.expert_width[full];
      Accumulator<1> acc;
      acc.Clear();
#pragma unroll 1
      for (int left = steps; left > 0; left -= chunk_steps)
        at = operand.Multiply(c, min(left, chunk_steps), full == 0, at, acc);
      const float score = Bf16BitsToFloat(c.smem.slice_scores()[slice * 8 + operand.row]);
#pragma unroll
      for (int i = 0; i < 4; ++i) total[i] += score * (acc.even[0][i] + acc.odd[0][i]);
    }
    c.SharedTileDone(total);
  }
}

}  // namespace baton::cuda
