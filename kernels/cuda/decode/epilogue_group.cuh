// The epilogue warps: they add up the MMA warps' partial tiles, finish the outputs - RoPE and
// append, SwiGLU, residual - and write and signal them, while the MMA warps are at the next tiles.
// Embedding and the step's end (epilogue_head.cuh) are theirs too.
#pragma once

#include "kernels/cuda/decode/packed_layout.h"
#include "kernels/cuda/decode/worker_group.cuh"

namespace baton::cuda {

// A thread has one place of the 16 x 8 outputs of every row tile.
template <int NT>
struct EpilogueGroup : WorkerGroup<kEpilogueRole, kEpilogueThreads> {
  static constexpr int kOutputs = 16 * 8;
  static_assert(kEpilogueThreads == kOutputs);
  uint32_t tiles = 0;  // Taken from the MMA warps.

  using WorkerGroup::WorkerGroup;

  // This thread's output of the next tile, of a team or of one that all MMA warps share: the order
  // of the sum is in mma_group.cuh.
  template <bool kShared>
  __device__ float TakeTile() {
    constexpr int kParts = kMmaWarps / kTeams<NT>;
    const int stage = tiles % kStages<NT>;
    Wait(misc.partial_full[stage], tiles / kStages<NT> & 1, kWaitTile);
    const float* from = smem.reduce() + stage * kParts * kOutputs + tid;
    float part[kParts];
#pragma unroll
    for (int w = 0; w < kParts; ++w) part[w] = from[w * kOutputs];
    __syncwarp();
    WarpArrive(misc.partial_empty[stage], lane == 0);
    ++tiles;
    if constexpr (kTeams<NT> == 1 && kShared) {
      return (((part[0] + part[1]) + part[2]) + part[3]) +
             (((part[4] + part[5]) + part[6]) + part[7]);
    } else if constexpr (kTeams<NT> == 1) {
      return (((part[0] + part[4]) + (part[1] + part[5])) + (part[2] + part[6])) +
             (part[3] + part[7]);
    } else {
      return ((part[0] + part[1]) + part[2]) + part[3];
    }
  }
  __device__ float TakeTeamTile() { return TakeTile<false>(); }
  __device__ float TakeSharedTile() {
    float out = TakeTile<true>();
    if (kTeams<NT> == 2) out += TakeTile<true>();
    return out;
  }
  // A packet of what the task makes, for the readers of `layer`.
  __device__ void Publish(void* to, uint32_t data, int layer) const {
    if (!Lost()) StorePacket(to, data, Epoch(layer));
  }
  // The pair k, k + 1 of a row of x of `layer`. Up to eight rows it is a packet; more would take
  // the experts' bandwidth, from those who poll and as they are twice as long.
  __device__ void WriteX(int copy, int column, int k, uint32_t pair, int layer) const {
    const int steps = p.hidden / 16;
    if constexpr (NT == 1) {
      Publish(p.x_packets + copy * p.x_packets_copy_bytes + PacketOffset(steps, column, k), pair,
              layer);
    } else {
      char* to = p.x + copy * p.x_copy_bytes + FragmentOffset(steps, column, k);
      *reinterpret_cast<uint32_t*>(to) = pair;
    }
  }
  // The task's part of x is written.
  __device__ void TellX() const {
    if constexpr (NT == 1) {
      this->Count();
    } else {
      this->Signal();
    }
  }
  // Row of the tile and column of the batch of this thread's output of row tile j.
  __device__ int Row() const { return (tid >> 4) + 8 * (tid >> 1 & 1); }
  __device__ int Column(int j) const { return j * 8 + 2 * (tid >> 2 & 3) + (tid & 1); }
};

// Embedding rows of the owned units of x.
template <int NT>
__device__ void RunEmbed(EpilogueGroup<NT>& c) {
  const DecodeParams& p = c.p;
  const int pairs = (c.task().end - c.task().begin) * 4;
  for (int i = c.tid; i < pairs * 8 * NT; i += kEpilogueThreads) {
    const int column = i / pairs;
    const int pair = i % pairs;
    const int k = c.task().begin * 8 + 2 * pair;
    uint32_t value = 0;
    if (c.RowActive(column)) {
      const uint32_t token = c.misc.token[column];
      const OwnedRange owner = RangeAt(token >> 3, p.vocab_units, p.worker_count);
      value = __ldg(reinterpret_cast<const uint32_t*>(
          p.embedding + PackedPairOffsetIn(owner, token, k, p.hidden)));
    }
    c.WriteX(c.task().buffer_epoch, column, k, value, c.task().layer);
    // Kept beside for the residual: [owned row][column].
    uint16_t* keep = c.smem.keep() + 2 * pair * 8 * NT + column;
    keep[0] = value & 0xffff;
    keep[8 * NT] = value >> 16;
  }
}

// Where row `column` of K (is_v = 0) or V writes dimension d (even) of `head` this step.
template <int NT>
__device__ uint32_t* CacheAddress(EpilogueGroup<NT>& c, int column, int is_v, int head, int d) {
  const DecodeParams& p = c.p;
  const LayerDevice& layer = c.layer();
  const int token = c.misc.position[column] & 63;
  const uint64_t offset = c.misc.write_page[layer.group][column] +
                          layer.layer_in_group * p.kv_layer_bytes +
                          uint64_t(is_v * p.kv_heads + head) * p.kv_tile_bytes +
                          token * (2 * kHeadDim) + (((d >> 3) ^ (token & 7)) << 4) + (d & 7) * 2;
  return reinterpret_cast<uint32_t*>(p.kv_base + offset);
}

// What becomes of one output of W . xs. `row` is the matrix' output row, `column` the row of the
// batch.
template <int NT>
__device__ void FinishQkv(EpilogueGroup<NT>& c, int row, int column, bool live, uint32_t table,
                          float out) {
  const DecodeParams& p = c.p;
  const float self = RoundBf16(out);
  const float partner = __shfl_xor_sync(~0u, self, 16);  // The other row of the pair.
  if (!live || (row & 1) || !c.RowActive(column)) return;
  uint32_t pair = PackBf16(self, partner);
  const int part = row < p.q_width ? 0 : row < p.q_width + p.kv_width ? 1 : 2;
  if (c.layer().rope && part < 2) {
    const float cosine = LowFloat(table), sine = HighFloat(table);
    pair = PackBf16(self * cosine - partner * sine, partner * cosine + self * sine);
  }
  if (part == 0) {
    c.Publish(p.q + (uint64_t(column) * p.q_width + row) / 2, pair, c.task().layer);
  } else {
    const int k = row - p.q_width - (part - 1) * p.kv_width;
    c.Publish(p.new_kv + ((uint64_t(column) * 2 + part - 1) * p.kv_width + k) / 2, pair,
              c.task().layer);
    *CacheAddress(c, column, part - 1, k / kHeadDim, k % kHeadDim) = pair;
  }
}

// h = silu(gate) * up. Gate rows are tile rows 0-7, up rows 8-15: the same lane, two outputs on.
// `k` is the row of the slice, `column` the row of the batch.
template <int NT>
__device__ void FinishGateUp(EpilogueGroup<NT>& c, int slice, int k, int column, bool live,
                             float out) {
  const DecodeParams& p = c.p;
  const float gate = RoundBf16(out);
  const float up = RoundBf16(__shfl_xor_sync(~0u, out, 2));
  const float h = RoundBf16(__fdividef(gate, 1.0f + __expf(-gate))) * up;
  const float partner = __shfl_xor_sync(~0u, h, 16);
  const int row = c.Row();
  if (row >= 8) return;
  const bool always = slice == c.ActiveCount();
  if (k >= int(c.task().end) || !live) return;
  char* to = p.hidden_act + c.task().buffer_epoch * p.hidden_copy_bytes +
             (always ? p.hidden_always_offset : slice * p.hidden_slice_bytes);
  const int steps = (always ? c.layer().always_width : c.layer().expert_width) / 16;
  const uint32_t at =
      NT == 1 ? FragmentOffset(steps, column, k & ~1) : RowOffset(steps, column, k & ~1);
  // Neighbouring k are one word where the tile's rows pair up as they do; a worker's range may
  // begin or end in between.
  if (((row ^ k) & 1) != 0 || (!(k & 1) && k + 1 >= int(c.task().end))) {
    *reinterpret_cast<uint16_t*>(to + at + (k & 1) * 2) = FloatToBf16Bits(h);
  } else if (!(k & 1)) {
    *reinterpret_cast<uint32_t*>(to + at) = PackBf16(h, partner);
  }
}

// Router, QkvRope and GateUp: the owned rows, in the MMA warps' order.
template <int NT>
__device__ void FinishRows(EpilogueGroup<NT>& c) {
  const DecodeParams& p = c.p;
  const OpKind op = c.task().op;
  if (op == OpKind::kGateUp) {
    c.WaitRouting();
    const SliceRange slices = TaskSlices(c.task(), c.layer(), c.ActiveCount());
#pragma unroll 1
    for (int slice = slices.begin; slice < slices.end; ++slice) {
#pragma unroll 1
      for (uint32_t block = c.task().begin; block < c.task().end; block += 8) {
        const Slice of = c.smem.slices()[slice];
        const int count = __popc(of.rows);
#pragma unroll 1
        for (int j = 0; j < (kGathers<NT> ? TilesFor(count) : NT); ++j) {
          int column = c.Column(j);
          const bool live = kGathers<NT> ? column < count : of.rows >> column & 1;
          if (kGathers<NT>) column = c.smem.GatheredRow(of, column);
          FinishGateUp(c, slice, block + c.Row(), column, live, c.TakeTeamTile());
        }
      }
    }
    return;
  }
#pragma unroll 1
  for (uint32_t tile = c.task().begin; tile < c.task().end; tile += 2) {
    const int row = tile * 8 + c.Row();
    const bool live = tile + (c.Row() >> 3) < c.task().end;
    uint32_t table[NT] = {};  // Cosines and sines, on their way while the tile is awaited.
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      if (op != OpKind::kQkvRope || !live) continue;
      const int pair = (row - c.task().begin * 8) >> 1;
      table[j] = c.smem.rope(c.worker)[pair * 8 * NT + c.Column(j)];
    }
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int column = c.Column(j);
      const float out = c.TakeTeamTile();
      if (op == OpKind::kQkvRope) {
        FinishQkv(c, row, column, live, table[j], out);
      } else if (live && row < c.layer().expert_count && column < p.row_limit) {
        c.Publish(
            p.router_logits + c.task().buffer_epoch * p.router_copy + column * p.expert_limit + row,
            __float_as_uint(RoundBf16(out)), c.task().layer);
      }
    }
  }
}

// OutputProj and Down: the earlier one's owned rows are kept in shared memory until the later one
// adds both: x += attention, x += ffn.
template <int NT>
__device__ void FinishHidden(EpilogueGroup<NT>& c) {
  const DecodeParams& p = c.p;
  const bool down = c.task().op == OpKind::kDown, adds = AddsToX(c.task());
  const int tile_count = (c.task().end - c.task().begin + 1) / 2;
  uint16_t* kept_x = c.smem.keep();
  uint16_t* kept_part = kept_x + tile_count * 16 * 8 * NT;
  const int copy = (c.task().buffer_epoch + 1) % kBufferCopies;
#pragma unroll 1
  for (uint32_t unit = c.task().begin; unit < c.task().end; unit += 2) {
    const int row = c.Row();
    const bool live = unit + (row >> 3) < c.task().end;
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int column = c.Column(j), at = row * 8 * NT + column;
      const float out = c.TakeSharedTile();
      const float part = RoundBf16(down ? out * c.layer().ffn_scale : out);
      float value = 0.0f;
      if (live && adds) {
        const float kept = Bf16BitsToFloat(kept_part[at]);
        value = RoundBf16(RoundBf16(Bf16BitsToFloat(kept_x[at]) + (down ? kept : part)) +
                          (down ? part : kept));
        kept_x[at] = FloatToBf16Bits(value);
      } else if (live) {
        kept_part[at] = FloatToBf16Bits(part);
      }
      const float partner = __shfl_xor_sync(~0u, value, 16);
      if (live && adds && !(row & 1)) {
        c.WriteX(copy, column, unit * 8 + row, PackBf16(value, partner), c.task().layer + 1);
      }
    }
    kept_x += 16 * 8 * NT;
    kept_part += 16 * 8 * NT;
  }
}

}  // namespace baton::cuda
