// Consumer ops of a layer but attention: norm on load, router, QKV with RoPE and append, gate/up,
// O, down.
#pragma once

#include "kernels/cuda/decode/consumer.cuh"
#include "kernels/cuda/decode/packed_layout.h"

namespace baton::cuda {

template <int NT>
inline constexpr bool kNormAhead = NT <= 2;

// Starts the copy of a norm's weights to shared memory; LoadNormalised waits for it.
template <int NT>
__device__ void PrefetchNorm(Consumer<NT>& c, const uint16_t* weight) {
  for (int i = c.tid * 8; i < c.p.hidden; i += kConsumerThreads * 8)
    AsyncCopy16(SmemAddress(c.smem.norm() + i), weight + i);
}

__device__ __forceinline__ float SumOfSquares(uint2 v, float mean) {
  const float a = LowFloat(v.x) - mean, b = HighFloat(v.x) - mean, c = LowFloat(v.y) - mean,
              d = HighFloat(v.y) - mean;
  return a * a + b * b + c * c + d * d;
}

// Adds a row's lanes and warps, in a fixed order. `partial` is free again after the next barrier.
template <int NT>
__device__ void SumRows(Consumer<NT>& c, float (&sum)[NT],
                        float (&partial)[kConsumerWarps][kMaxRows]) {
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    sum[j] += __shfl_xor_sync(~0u, sum[j], 1);
    sum[j] += __shfl_xor_sync(~0u, sum[j], 2);
    if ((c.lane & 3) == 0) partial[c.warp][j * 8 + (c.lane >> 2)] = sum[j];
  }
  c.Sync();
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    sum[j] = 0.0f;
#pragma unroll
    for (int w = 0; w < kConsumerWarps; ++w) sum[j] += partial[w][j * 8 + (c.lane >> 2)];
  }
}

// x of the task's copy, normalised with `weight`, into xs. Called after the wait for x.
// Rounding as Hugging Face: RMSNorm rounds v * rstd to bf16, then the product with the weight;
// LayerNorm rounds once.
template <int NT>
__device__ void LoadNormalised(Consumer<NT>& c, const uint16_t* this_weight,
                               const uint16_t* next_weight) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16;
  const char* x = p.x + c.task.buffer_epoch * p.x_copy_bytes + (c.warp * 32 + c.lane) * 8;
  char* xs = c.smem.xs() + (c.warp * 32 + c.lane) * 8;
  const bool layer_norm = p.norm_is_layer_norm;
  const int count = (steps - c.warp + kConsumerWarps - 1) / kConsumerWarps;
  float sum[NT], mean[NT];
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    sum[j] = mean[j] = 0.0f;
    const uint32_t row = j * steps * 256;
#pragma unroll 1
    for (int first = 0; first < count; first += 8) {
      uint2 v[8];
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        v[n] = make_uint2(0, 0);
        if (first + n < count) v[n] = LoadRelaxed2(x + row + (first + n) * 2048);
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if (first + n >= count) continue;
        *reinterpret_cast<uint2*>(xs + row + (first + n) * 2048) = v[n];
        if (!layer_norm) sum[j] += SumOfSquares(v[n], 0.0f);
      }
    }
    if (layer_norm) {
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        const uint2 v = *reinterpret_cast<const uint2*>(xs + row + i * 2048);
        sum[j] += LowFloat(v.x) + HighFloat(v.x) + LowFloat(v.y) + HighFloat(v.y);
      }
    }
  }
  const float scale_down = 1.0f / static_cast<float>(p.hidden);
  if (layer_norm) {
    SumRows(c, sum, c.misc.norm_partial2);
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      mean[j] = sum[j] * scale_down;
      sum[j] = 0.0f;
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        sum[j] +=
            SumOfSquares(*reinterpret_cast<const uint2*>(xs + j * steps * 256 + i * 2048), mean[j]);
      }
    }
  }
  AsyncCopyWait();
  SumRows(c, sum, c.misc.norm_partial);
  float scale[NT];
#pragma unroll
  for (int j = 0; j < NT; ++j) scale[j] = rsqrtf(sum[j] * scale_down + p.norm_epsilon);
  // With many rows there is no room to keep the weights ahead; their latency matters less then,
  // too.
  const uint16_t* weights = kNormAhead<NT> ? c.smem.norm() : this_weight;
  const uint32_t* weight = reinterpret_cast<const uint32_t*>(weights + c.warp * 16) + (c.lane & 3);
#pragma unroll 2
  for (int i = 0; i < count; ++i) {
    const uint32_t w0 = weight[i * 64], w1 = weight[i * 64 + 4];
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      uint2* at = reinterpret_cast<uint2*>(xs + j * steps * 256 + i * 2048);
      const uint2 v = *at;
      const auto apply = [&](float value, float w) {
        const float y = (value - mean[j]) * scale[j];
        return w * (layer_norm ? y : RoundBf16(y));
      };
      *at = make_uint2(
          PackBf16(apply(LowFloat(v.x), LowFloat(w0)), apply(HighFloat(v.x), HighFloat(w0))),
          PackBf16(apply(LowFloat(v.y), LowFloat(w1)), apply(HighFloat(v.y), HighFloat(w1))));
    }
  }
  c.Sync();
  if (kNormAhead<NT>) PrefetchNorm(c, next_weight);
}

// Embedding rows of the owned units of x.
template <int NT>
__device__ void RunEmbed(Consumer<NT>& c) {
  const DecodeParams& p = c.p;
  const int steps = p.hidden / 16;
  const int pairs = (c.task.end - c.task.begin) * 4;
  char* x = p.x + c.task.buffer_epoch * p.x_copy_bytes;
  for (int i = c.tid; i < pairs * 8 * NT; i += kConsumerThreads) {
    const int column = i / pairs;
    const int pair = i % pairs;
    const int k = c.task.begin * 8 + 2 * pair;
    uint32_t value = 0;
    if (c.RowActive(column)) {
      const uint32_t token = c.misc.token[column];
      const OwnedRange owner = RangeAt(token >> 3, p.vocab_units, p.worker_count);
      value = __ldg(reinterpret_cast<const uint32_t*>(
          p.embedding + PackedPairOffsetIn(owner, token, k, p.hidden)));
    }
    *reinterpret_cast<uint32_t*>(x + Consumer<NT>::FragmentOffset(steps, column, k)) = value;
    // Kept beside for the residual: [owned row][column].
    uint16_t* keep = c.smem.keep() + 2 * pair * 8 * NT + column;
    keep[0] = value & 0xffff;
    keep[8 * NT] = value >> 16;
  }
  c.Signal();
}

// Where row `column` of K (is_v = 0) or V writes dimension d (even) of `head` this step.
template <int NT>
__device__ uint32_t* CacheAddress(Consumer<NT>& c, const LayerDevice& layer, int column, int is_v,
                                  int head, int d) {
  const DecodeParams& p = c.p;
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
__device__ void FinishQkv(Consumer<NT>& c, const LayerDevice& layer, int row, int column, bool live,
                          float out) {
  const DecodeParams& p = c.p;
  const float self = RoundBf16(out);
  const float partner = __shfl_xor_sync(~0u, self, 16);  // The other row of the pair.
  if (!live || (row & 1) || !c.RowActive(column)) return;
  uint32_t pair = PackBf16(self, partner);
  const int part = row < p.q_width ? 0 : row < p.q_width + p.kv_width ? 1 : 2;
  if (layer.rope && part < 2) {
    const uint32_t table = c.smem.rope()[((row - c.task.begin * 8) >> 1) * 8 * NT + column];
    const float cosine = LowFloat(table), sine = HighFloat(table);
    pair = PackBf16(self * cosine - partner * sine, partner * cosine + self * sine);
  }
  if (part == 0) {
    *reinterpret_cast<uint32_t*>(p.q + uint64_t(column) * p.q_width + row) = pair;
  } else {
    const int k = row - p.q_width - (part - 1) * p.kv_width;
    *reinterpret_cast<uint32_t*>(p.new_kv + (uint64_t(column) * 2 + part - 1) * p.kv_width + k) =
        pair;
    *CacheAddress(c, layer, column, part - 1, k / kHeadDim, k % kHeadDim) = pair;
  }
}

// h = silu(gate) * up. Gate rows are tile rows 0-7, up rows 8-15: the same lane, two outputs on.
// `k` is the row of the slice.
template <int NT>
__device__ void FinishGateUp(Consumer<NT>& c, const LayerDevice& layer, int slice, int k,
                             int column, bool live, float out) {
  const DecodeParams& p = c.p;
  const float gate = RoundBf16(out);
  const float up = RoundBf16(__shfl_xor_sync(~0u, out, 2));
  const float h = RoundBf16(__fdividef(gate, 1.0f + __expf(-gate))) * up;
  const float partner = __shfl_xor_sync(~0u, h, 16);
  const int row = c.OutputRow();
  if (!live || row >= 8) return;
  const bool always = slice == c.misc.active_count;
  const uint32_t mask = always ? c.misc.active_rows : c.smem.row_mask()[c.smem.active_id()[slice]];
  if (k >= int(c.task.end) || !(mask >> column & 1)) return;
  char* to = p.hidden_act + c.task.buffer_epoch * p.hidden_copy_bytes +
             (always ? p.hidden_always_offset : slice * p.hidden_slice_bytes);
  const int steps = (always ? layer.always_width : layer.expert_width) / 16;
  const uint32_t at = Consumer<NT>::FragmentOffset(steps, column, k & ~1);
  // Neighbouring k are one word where the tile's rows pair up as they do; a worker's range may
  // begin or end in between.
  if (((row ^ k) & 1) != 0 || (!(k & 1) && k + 1 >= int(c.task.end))) {
    *reinterpret_cast<uint16_t*>(to + at + (k & 1) * 2) = FloatToBf16Bits(h);
  } else if (!(k & 1)) {
    *reinterpret_cast<uint32_t*>(to + at) = PackBf16(h, partner);
  }
}

// Row tiles of 8 of which some row is in `mask`.
template <int NT>
__device__ uint32_t TileMask(uint32_t mask) {
  uint32_t tiles = 0;
#pragma unroll
  for (int j = 0; j < NT; ++j) tiles |= (mask >> (8 * j) & 0xff ? 1u : 0u) << j;
  return tiles;
}

// Router, QkvRope, GateUp and LmHead: W . xs over the owned rows, kGroup tiles at a time.
// `head(pass, token, column, live, out)` takes the vocabulary's outputs.
template <int NT, typename Head>
__device__ void RunRows(Consumer<NT>& c, const LayerDevice& layer, Head&& head) {
  const DecodeParams& p = c.p;
  constexpr int kGroup = Consumer<NT>::kGroup;
  const OpKind op = c.task.op;
  const bool gate_up = op == OpKind::kGateUp;
  const int owned = c.task.end - c.task.begin;
  int first_slice = 0, blocks = (owned + 1) / 2, items = blocks;
  if (gate_up) {
    c.WaitRouting();
    const SliceRange slices = TaskSlices(c.task, layer, c.misc.active_count);
    first_slice = slices.begin;
    blocks = (owned + 7) / 8;
    items = (slices.end - slices.begin) * blocks;
  }
#pragma unroll 1
  for (int item = 0; item < items; item += kGroup) {
    const int tiles = min(kGroup, items - item);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      uint32_t tile_mask = ~0u;
      int step_bytes = 512, left = owned - 2 * (item + tile),
          chunk_steps = p.smem.chunks.hidden[left >= 2];
      if (gate_up) {
        const int slice = blocks == 1 ? item + tile : (item + tile) / blocks;
        left = owned - 8 * (item + tile - slice * blocks);
        step_bytes = 64 * min(8, left);
        chunk_steps = p.smem.chunks.gate_up[min(8, left)];
        if (NT > 1 && first_slice + slice < c.misc.active_count) {
          tile_mask = TileMask<NT>(c.smem.row_mask()[c.smem.active_id()[first_slice + slice]]);
        }
      } else if (left < 2) {
        step_bytes = 256;
      }
      float acc[NT][4];
      Consumer<NT>::Clear(acc);
      c.MultiplyTile(gate_up ? kRoutedQueue : kStaticQueue, step_bytes, chunk_steps,
                     !gate_up && left < 2, tile_mask, acc);
      c.StoreTile(tile, acc);
    }
    float out[Consumer<NT>::kPasses];
    c.SumTiles(tiles, out);
#pragma unroll
    for (int pass = 0; pass < Consumer<NT>::kPasses; ++pass) {
      const int at = item + c.OutputTile(pass), column = c.OutputColumn(pass);
      const bool inside = c.OutputTile(pass) < tiles;
      if (gate_up) {
        const int slice = blocks == 1 ? at : at / blocks;
        const int k = c.task.begin + 8 * (at - slice * blocks) + c.OutputRow();
        FinishGateUp(c, layer, first_slice + slice, k, column, inside, out[pass]);
        continue;
      }
      const int unit = c.task.begin + 2 * at + (c.OutputRow() >> 3);
      const int row = unit * 8 + (c.OutputRow() & 7);
      const bool live = inside && unit < int(c.task.end);
      if (op == OpKind::kQkvRope) {
        FinishQkv(c, layer, row, column, live, out[pass]);
      } else if (op == OpKind::kLmHead) {
        head(pass, row, column, live, out[pass]);
      } else if (live && row < layer.expert_count && column < p.row_limit) {
        p.router_logits[c.task.buffer_epoch * p.router_copy + column * p.expert_limit + row] =
            RoundBf16(out[pass]);
      }
    }
  }
}

// Where the B operand of a slice lies: a fragment buffer in global memory. And the chunks of its
// tiles.
struct Slice {
  const char* b;
  int steps;
  int chunk[2];  // [8-row tile, 16-row tile]
};

// OutputProj and Down: W . b over the owned rows, tile by tile, slice by slice, chunk by chunk. The
// fragments of the next chunk load while the current one is multiplied.
template <int NT>
struct GlobalRows {
  static constexpr int kMost = kMaxChunkSteps / kConsumerWarps;
  Consumer<NT>& c;
  const LayerDevice& layer;
  const bool down;
  const int slice_count, active_count;
  const char* hidden;
  uint2 ahead[kMost][NT];

  __device__ GlobalRows(Consumer<NT>& consumer, const LayerDevice& l)
      : c(consumer),
        layer(l),
        down(consumer.task.op == OpKind::kDown),
        slice_count(down ? TaskSlices(consumer.task, l, consumer.misc.active_count).end : 1),
        active_count(consumer.misc.active_count),
        hidden(consumer.p.hidden_act + consumer.task.buffer_epoch * consumer.p.hidden_copy_bytes) {}

  __device__ Slice At(int slice) const {
    const ChunkTable& chunks = c.p.smem.chunks;
    if (!down) return {c.p.attention, c.p.q_width / 16, {chunks.q_width[0], chunks.q_width[1]}};
    if (slice == active_count) {
      const uint8_t(&chunk)[2] = layer.always_chunk[NT - 1];
      return {hidden + c.p.hidden_always_offset, layer.always_width / 16, {chunk[0], chunk[1]}};
    }
    return {hidden + slice * c.p.hidden_slice_bytes,
            layer.expert_width / 16,
            {chunks.expert_width[0], chunks.expert_width[1]}};
  }
  __device__ int Count(int steps_left, int chunk_steps) const {
    return (min(chunk_steps, steps_left) - c.warp + kConsumerWarps - 1) / kConsumerWarps;
  }
  __device__ const char* Fragment(const Slice& slice, int first) const {
    return slice.b + ((first + c.warp) * 32 + c.lane) * 8;
  }
  // acc += the chunk at `a`; `ahead` is used and refilled from `next` as it goes.
  template <bool kHalf>
  __device__ void MultiplyChunk(const char* a, int count, const char* next, int next_count,
                                int next_row, float (&acc)[NT][4]) {
    constexpr int kStride = kConsumerWarps * (kHalf ? 256 : 512);
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i < count) {
        const uint4 fa = Consumer<NT>::template LoadA<kHalf>(a + i * kStride);
#pragma unroll
        for (int j = 0; j < NT; ++j) Mma16(acc[j], fa, ahead[i][j]);
      }
      if (i < next_count) {
#pragma unroll
        for (int j = 0; j < NT; ++j) ahead[i][j] = LoadRelaxed2(next + i * 2048 + j * next_row);
      }
    }
  }
  // The products of one tile over all slices: `total`, scores applied.
  __device__ void MultiplyTile(uint32_t unit, float (&total)[NT][4]) {
    const bool half = unit + 1 == c.task.end;
    const int step_bytes = half ? 256 : 512;
    const int q = down ? kRoutedQueue : kStaticQueue;
    const int offset = c.warp * step_bytes + c.lane * (half ? 8 : 16);
    Slice current = At(0);
    int chunk_steps = half ? current.chunk[0] : current.chunk[1];
#pragma unroll 1
    for (int slice = 0; slice < slice_count; ++slice) {
      float acc[NT][4];
      Consumer<NT>::Clear(acc);
      const Slice following = slice + 1 < slice_count ? At(slice + 1) : At(0);
      const bool last = slice + 1 == slice_count && unit + 2 >= c.task.end;
      const bool next_half = slice + 1 == slice_count ? unit + 3 == c.task.end : half;
      const int following_chunk = next_half ? following.chunk[0] : following.chunk[1];
#pragma unroll 1
      for (int first = 0; first < current.steps; first += chunk_steps) {
        const int count = Count(current.steps - first, chunk_steps);
        const int then = first + chunk_steps;
        const bool more = then < current.steps;
        const char* next = more ? Fragment(current, then) : Fragment(following, 0);
        const int next_count = more   ? Count(current.steps - then, chunk_steps)
                               : last ? 0
                                      : Count(following.steps, following_chunk);
        const int next_row = (more ? current.steps : following.steps) * 256;
        const char* a = c.Acquire(q) + offset;
        if (half) {
          MultiplyChunk<true>(a, count, next, next_count, next_row, acc);
        } else {
          MultiplyChunk<false>(a, count, next, next_count, next_row, acc);
        }
        c.Release(q);
      }
      AddScaled(slice, acc, total);
      current = following;
      chunk_steps = following_chunk;
    }
  }
  __device__ void AddScaled(int slice, const float (&acc)[NT][4], float (&total)[NT][4]) const {
    const bool plain = !down || slice == active_count;
    const int id = plain ? 0 : c.smem.active_id()[slice];
    const uint32_t mask = plain ? ~0u : c.smem.row_mask()[id];
#pragma unroll
    for (int j = 0; j < NT; ++j) {
      const int column = 8 * j + 2 * (c.lane & 3);
      uint32_t scores = 0x3f803f80u;
      if (!plain)
        scores = *reinterpret_cast<const uint32_t*>(c.smem.score() + id * 8 * NT + column);
      // A row that did not choose the expert multiplies stale data: it is left out, not scaled by
      // zero.
      if (mask >> column & 1) {
        total[j][0] += LowFloat(scores) * acc[j][0];
        total[j][2] += LowFloat(scores) * acc[j][2];
      }
      if (mask >> column & 2) {
        total[j][1] += HighFloat(scores) * acc[j][1];
        total[j][3] += HighFloat(scores) * acc[j][3];
      }
    }
  }
  __device__ void Prefetch() {
    if (slice_count == 0) return;
    const Slice slice = At(0);
    const int count =
        Count(slice.steps, c.task.begin + 1 == c.task.end ? slice.chunk[0] : slice.chunk[1]);
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i >= count) continue;
#pragma unroll
      for (int j = 0; j < NT; ++j)
        ahead[i][j] = LoadRelaxed2(Fragment(slice, 0) + i * 2048 + j * slice.steps * 256);
    }
  }
};

// OutputProj: owned rows of the attention output projection, kept in shared memory until Down adds
// them. Down: owned rows of down over the active slices in ascending id, scores applied in float32;
// then x += attention, x += ffn.
template <int NT>
__device__ void RunGlobalRows(Consumer<NT>& c, const LayerDevice& layer) {
  const DecodeParams& p = c.p;
  GlobalRows<NT> rows(c, layer);
  rows.Prefetch();
  char* x = p.x + (c.task.buffer_epoch + 1) % 3 * p.x_copy_bytes;
  const int tiles = (c.task.end - c.task.begin + 1) / 2;
  uint16_t* kept_x = c.smem.keep();
  uint16_t* kept_attention = kept_x + tiles * 16 * 8 * NT;
#pragma unroll 1
  for (uint32_t unit = c.task.begin; unit < c.task.end; unit += 2) {
    float total[NT][4], out[Consumer<NT>::kPasses];
    Consumer<NT>::Clear(total);
    rows.MultiplyTile(unit, total);
    c.StoreTile(0, total);
    c.SumTiles(1, out);
#pragma unroll
    for (int pass = 0; pass < Consumer<NT>::kPasses; ++pass) {
      const int row = c.OutputRow(), column = c.OutputColumn(pass);
      const bool live = c.OutputBlock(pass) < NT && !(unit + 1 == c.task.end && row >= 8);
      const int at = row * 8 * NT + column;
      float value = 0.0f;
      if (live && rows.down) {
        value =
            RoundBf16(RoundBf16(Bf16BitsToFloat(kept_x[at]) + Bf16BitsToFloat(kept_attention[at])) +
                      RoundBf16(out[pass] * layer.ffn_scale));
        kept_x[at] = FloatToBf16Bits(value);
      } else if (live) {
        kept_attention[at] = FloatToBf16Bits(out[pass]);
      }
      const float partner = __shfl_xor_sync(~0u, value, 16);
      if (live && rows.down && !(row & 1)) {
        *reinterpret_cast<uint32_t*>(
            x + Consumer<NT>::FragmentOffset(p.hidden / 16, column, unit * 8 + row)) =
            PackBf16(value, partner);
      }
    }
    kept_x += 16 * 8 * NT;
    kept_attention += 16 * 8 * NT;
  }
  if (c.task.signal != kNoCounter) c.Signal();
}

}  // namespace baton::cuda
