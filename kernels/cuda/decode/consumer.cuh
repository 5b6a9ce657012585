// The consumer warps' common ground: chunk queues, tile products, the cross-warp sum, waits and
// signals.
//
// Numbers: warp w takes the k-steps s with s % 8 == w of every tile, in ascending order, into one
// float32 accumulator; the eight warps' sums are added in warp order. Neither the batch, nor the
// row's slot, nor the slot size changes the order, so a row's results are bit-identical in any
// batch.
#pragma once

#include "kernels/cuda/decode/waits.cuh"

namespace baton::cuda {

template <int NT>
struct Consumer {
  static constexpr int kColumns = 8 * NT;
  // Weight tiles summed over warps at once, and their [16, 8] blocks: the reduction buffer holds up
  // to four.
  static constexpr int kGroup = NT == 1 ? 4 : NT == 2 ? 2 : 1;
  static constexpr int kBlocks = kGroup * NT;
  static constexpr int kPasses = 2;  // Outputs a thread holds after a sum.

  const DecodeParams& p;
  const Smem& smem;
  ControlSmem& misc;
  const int worker, tid, warp, lane;
  uint32_t static_taken = 0, routed_taken = 0;  // Chunks taken from each queue.
  int task_index = 0;
  Task task{};
  uint64_t wait_memory = 0, wait_routing = 0, wait_join = 0, wait_other = 0;

  __device__ Consumer(const DecodeParams& params, const Smem& s, int w, int t)
      : p(params), smem(s), misc(s.misc()), worker(w), tid(t), warp(t >> 5), lane(t & 31) {}

  __device__ WaitContext Here() const {
    return {uint32_t(worker), uint32_t(task_index), uint32_t(task.op), task.layer};
  }
  __device__ void Sync() const { NamedBarrier(1, kConsumerThreads); }

  // --- Chunks.
  __device__ const char* Acquire(int q) {
    const uint32_t taken = q == kStaticQueue ? static_taken : routed_taken;
    const uint32_t entry = taken & 15;
    const uint32_t barrier = SmemAddress(&misc.full[q][entry]);
    if (!BarrierTest(barrier, taken >> 4 & 1)) {
      const long long start = clock64();
      WaitBarrier(p, misc, Here(), barrier, taken >> 4 & 1, kWaitRing);
      wait_memory += clock64() - start;
    }
    return smem.slot(*const_cast<volatile uint8_t*>(&misc.slot[q][entry]));
  }
  __device__ void Release(int q) {
    const uint32_t taken = q == kStaticQueue ? static_taken++ : routed_taken++;
    __syncwarp();
    if (lane == 0) BarrierArrive(SmemAddress(&misc.empty[q][taken & 15]));
  }

  // --- Waits and signals of a task.
  __device__ void WaitTask() {
    if (tid == 0) {
      for (int i = 0; i < 2; ++i) {
        const TaskWait w = task.waits[i];
        if (w.counter == kNoCounter) continue;
        const long long start = clock64();
        WaitCounter(p, misc, Here(), w.counter, w.producers * p.step);
        (IsJoin() ? wait_join : wait_other) += clock64() - start;
      }
      if (p.reader_fence) FenceGpu();
    }
    Sync();
  }
  __device__ bool IsJoin() const {
    return task.op == OpKind::kRouter || task.op == OpKind::kQkvRope || task.op == OpKind::kLmHead;
  }
  __device__ void WaitRouting() {
    const uint32_t barrier = SmemAddress(&misc.routing);
    const uint32_t parity = task.layer & 1;
    if (BarrierTest(barrier, parity)) return;
    const long long start = clock64();
    WaitBarrier(p, misc, Here(), barrier, parity, kWaitRouting);
    wait_routing += clock64() - start;
  }
  // All consumers' stores of the task become visible to who waits for the counter.
  __device__ void Signal() {
    Sync();
    if (tid != 0 || task.signal == kNoCounter) return;
    if (p.drop_signal_worker == uint32_t(worker) && p.drop_signal_counter == task.signal) return;
    FenceGpu();
    AddRelaxed(p.counters + task.signal * kCounterStride, 1);
  }

  // --- Tiles.
  __device__ static void Clear(float (&acc)[NT][4]) {
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[j][i] = 0.0f;
  }

  // This lane's A operand of a k-step at `at`. Rows that a tile does not have read as copies of
  // others: their outputs are never used, and rows do not mix.
  template <bool kHalf>
  __device__ static uint4 LoadA(const char* at) {
    if constexpr (kHalf) {
      const uint2 v = *reinterpret_cast<const uint2*>(at);
      return make_uint4(v.x, v.x, v.y, v.y);
    } else {
      return *reinterpret_cast<const uint4*>(at);
    }
  }

  // acc += W . xs for kCount k-steps of this warp at once; a, b: this lane's operands of the first.
  template <bool kHalf, int kCount>
  __device__ void MultiplySome(const char* a, const char* b, int stride, uint32_t tile_mask,
                               float (&acc)[NT][4]) {
    const int row = p.hidden * 16;
    uint4 fa[kCount];
    uint2 fb[kCount][NT];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      fa[i] = LoadA<kHalf>(a + i * stride);
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        fb[i][j] = *reinterpret_cast<const uint2*>(b + i * 2048 + j * row);
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        if (NT == 1 || tile_mask >> j & 1) Mma16(acc[j], fa[i], fb[i][j]);
      }
    }
  }
  template <bool kHalf>
  __device__ void MultiplySteps(const char* a, const char* b, int stride, int count,
                                uint32_t tile_mask, float (&acc)[NT][4]) {
#pragma unroll 1
    for (; count >= 4; count -= 4) {
      MultiplySome<kHalf, 4>(a, b, stride, tile_mask, acc);
      a += 4 * stride;
      b += 4 * 2048;
    }
#pragma unroll 1
    for (; count > 0; --count) {
      MultiplySome<kHalf, 1>(a, b, stride, tile_mask, acc);
      a += stride;
      b += 2048;
    }
  }
  // acc += W_tile . xs for one tile; row tiles not in `tile_mask` are skipped.
  __device__ void MultiplyTile(int q, int step_bytes, int chunk_steps, bool half,
                               uint32_t tile_mask, float (&acc)[NT][4]) {
    const int steps = p.hidden / 16;
    const int stride = kConsumerWarps * step_bytes;
    const int offset = warp * step_bytes + (half ? lane * 8 : min(lane * 16, step_bytes - 16));
    const char* b = smem.xs() + (warp * 32 + lane) * 8;
#pragma unroll 1
    for (int first = 0; first < steps; first += chunk_steps) {
      const char* a = Acquire(q) + offset;
      const int count =
          (min(chunk_steps, steps - first) - warp + kConsumerWarps - 1) / kConsumerWarps;
      if (half) {
        MultiplySteps<true>(a, b + first * 256, stride, count, tile_mask, acc);
      } else {
        MultiplySteps<false>(a, b + first * 256, stride, count, tile_mask, acc);
      }
      Release(q);
    }
  }

  // --- Cross-warp sum: each warp stores its part of up to kGroup tiles, then SumTiles gives every
  // thread kPasses outputs.
  __device__ void StoreTile(int tile, const float (&acc)[NT][4]) {
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      float4* to =
          reinterpret_cast<float4*>(smem.reduce() + (warp * kBlocks + tile * NT + j) * 128) + lane;
      *to = make_float4(acc[j][0], acc[j][1], acc[j][2], acc[j][3]);
    }
  }
  __device__ void SumTiles(int tiles, float (&out)[kPasses]) {
    Sync();
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      out[pass] = 0.0f;
      if (OutputBlock(pass) < tiles * NT) {
#pragma unroll
        for (int w = 0; w < kConsumerWarps; ++w) {
          out[pass] += smem.reduce()[(w * kBlocks + OutputBlock(pass)) * 128 + (tid & 127)];
        }
      }
    }
    Sync();
  }
  // Where output `pass` of this thread lies: block, tile of the group, row of the tile, row of the
  // batch.
  __device__ int OutputBlock(int pass) const { return 2 * pass + (tid >> 7); }
  __device__ int OutputTile(int pass) const { return OutputBlock(pass) / NT; }
  __device__ int OutputRow() const { return (tid >> 4 & 7) + 8 * (tid >> 1 & 1); }
  __device__ int OutputColumn(int pass) const {
    return OutputBlock(pass) % NT * 8 + 2 * (tid >> 2 & 3) + (tid & 1);
  }
  __device__ bool RowActive(int column) const { return misc.active_rows >> column & 1; }

  // Byte offset in a fragment buffer of `steps` k-steps of the pair k, k + 1 (k even) of a row.
  __device__ static uint32_t FragmentOffset(int steps, int column, int k) {
    return (((column >> 3) * steps + (k >> 4)) * 32 + (column & 7) * 4 + (k >> 1 & 3)) * 8 +
           (k >> 3 & 1) * 4;
  }
};

}  // namespace baton::cuda
