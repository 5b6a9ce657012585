// OutputProj with more than eight rows: W . b over the owned rows, tile by tile, chunk by chunk, by
// all MMA warps together; b is the attention's fragment buffer. A warp's k-steps are copied in
// blocks to where xs was, two of which have room.
#pragma once

#include "kernels/cuda/decode/mma_group.cuh"

namespace baton::cuda {

template <int NT>
struct OutputRows {
  static constexpr int kBlock = 6, kRoom = 2 * kBlock;  // K-steps of a warp.
  static_assert(kRoom * kMmaWarps <= kXsSteps);
  static constexpr int kStride = kMmaWarps * 256;  // From one to the next.

  MmaGroup<NT>& c;
  const int warp, lane;
  const int steps, own;      // K-steps; those of this warp.
  uint32_t row_tiles = 0;    // That have active rows, a bit mask.
  int asked = 0, there = 0;  // Blocks.

  __device__ explicit OutputRows(MmaGroup<NT>& group)
      : c(group),
        warp(Opaque(group.warp)),  // Addresses worked out ahead of the task would fill registers.
        lane(Opaque(group.lane)),
        steps(group.p.q_width / 16),
        own(OwnSteps(steps, warp)) {
#pragma unroll
    for (int j = 0; j < NT; ++j)
      if (c.misc.active_rows >> (8 * j) & 0xff) row_tiles |= 1u << j;
  }
  // Starts the copies of the next block. 16 bytes a lane: two neighbouring lanes' of one column.
  // What the other rows' columns hold does not matter: columns do not mix.
  __device__ void Ask() {
    const int part = lane & 15;
    const char* from = c.p.attention + warp * 256 + part * 16;
    const uint32_t to = SmemAddress(c.smem.xs()) + warp * 256 + part * 16;
#pragma unroll 1
    for (int j = 0; j < NT; ++j) {
      if (!(c.misc.active_rows >> (8 * j + (part >> 1)) & 1)) continue;
#pragma unroll
      for (int i = 0; i < kBlock; i += 2) {
        const int step = asked * kBlock + i + (lane >> 4);
        if (step < own) {
          AsyncCopy16(to + j * c.p.smem.xs_row_bytes + step % kRoom * kStride,
                      from + j * steps * 256 + step * kStride);
        }
      }
    }
    AsyncCopyCommit();
    ++asked;
  }
  // The operands before the warp's k-step `end` are there.
  __device__ void WaitUntil(int end) {
    for (; there * kBlock < end; ++there) {
      if (asked - there > 1) {
        AsyncCopyWaitAllBut<1>();
      } else {
        AsyncCopyWait();
      }
    }
    __syncwarp();
  }
  // What MultiplyShared does, of all row tiles.
  __device__ void MultiplyFull(const char* a, const char* b, int count, bool half, bool odd,
                               Accumulator<NT>& acc) {
    const int stride = kMmaWarps * (half ? 256 : 512);
    const uint32_t b_tile = c.p.smem.xs_row_bytes;
#pragma unroll 1
    for (; count >= 3; count -= 3, odd = !odd) {
      if (odd) {
        c.template MultiplyAll<kStride, kOddFirst, 3>(a, b, b_tile, stride, half, acc);
      } else {
        c.template MultiplyAll<kStride, kEvenFirst, 3>(a, b, b_tile, stride, half, acc);
      }
      a += 3 * stride;
      b += 3 * kStride;
    }
#pragma unroll 1
    for (; count > 0; --count, odd = !odd) {
      if (odd) {
        c.template MultiplyAll<kStride, kOddFirst, 1>(a, b, b_tile, stride, half, acc);
      } else {
        c.template MultiplyAll<kStride, kEvenFirst, 1>(a, b, b_tile, stride, half, acc);
      }
      a += stride;
      b += kStride;
    }
  }
  __device__ void RunTile(bool half) {
    const int chunk_steps = c.p.smem.chunks.q_width[half ? 0 : 1];
    const int step_bytes = half ? 256 : 512;
    const char* b[NT];
#pragma unroll
    for (int j = 0; j < NT; ++j)
      b[j] = c.smem.xs() + j * c.p.smem.xs_row_bytes + warp * 256 + lane * 8;
    Accumulator<NT> acc;
    acc.Clear();
    asked = there = 0;
    Ask();
    Ask();
    c.InjectWarpDelay();
    int at = 0;  // The warp's next k-step.
#pragma unroll 1
    for (int left = steps; left > 0; left -= chunk_steps) {
      int count = OwnSteps(min(chunk_steps, left), warp);
      const char* a = c.AcquireShared() + warp * step_bytes + lane * (half ? 8 : 16);
      WaitUntil(at + count);
#pragma unroll 1
      while (count > 0) {
        const int run = min(count, kRoom - at % kRoom);
        if (row_tiles == (1u << NT) - 1) {
          MultiplyFull(a, b[0] + at % kRoom * kStride, run, half, at & 1, acc);
        } else {
          c.template MultiplyShared<kStride>(a, b, at % kRoom * kStride, run, half, row_tiles,
                                             at & 1, acc);
        }
        a += run * kMmaWarps * step_bytes;
        at += run;
        count -= run;
      }
      c.template Release<kMmaWarps>();  // Also: all lanes have read the operands.
      while (at >= (asked - 1) * kBlock && asked * kBlock < own) Ask();
    }
    float sum[NT][4];
    acc.Sum(sum);
#pragma unroll
    for (int j = 0; j < NT; ++j) c.SharedTileDone(sum[j]);
    AsyncCopyWait();
  }
  __device__ void Run() {
#pragma unroll 1
    for (uint32_t unit = c.task().begin; unit < c.task().end; unit += 2)
      RunTile(unit + 1 == c.task().end);
  }
};

}  // namespace baton::cuda
