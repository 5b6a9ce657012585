// The loader: two warps that stream through two rings, each in the order of use. One brings the
// weights of the MMA warps' tasks, at most `in_flight_chunks` of them on their way at a time: more
// would only make the memory system slower. The other brings K/V pages for the attention warps.
#pragma once

#include "kernels/cuda/decode/worker_group.cuh"

namespace baton::cuda {

// A warp that fills a ring. All its lanes do everything alike but start the copies.
template <Role kRole>
struct LoaderGroup : WorkerGroup<kRole, 32> {
  using Base = WorkerGroup<kRole, 32>;
  using Base::Base;
  using Base::lane;
  using Base::misc;
  using Base::p;
  using Base::smem;
  RingPlace next{};     // Where the next chunk goes.
  uint32_t chunks = 0;  // Issued so far.

  static constexpr RingId kRing = kRole == kWeightRole ? kWeightRing : kPageRing;
  __device__ RingBarriers& Ring() const { return misc.rings[kRing]; }
  __device__ int SlotCount() const {
    return kRole == kWeightRole ? p.smem.slot_count : p.smem.page_slot_count;
  }
  __device__ bool Stopping() const { return __any_sync(~0u, Ending(misc)); }
  // Whether the next slot is free; false: the step is ending.
  __device__ bool WaitSlot() const {
    this->Wait(Ring().empty[next.slot], next.phase ^ 1, kWaitLoader);
    return !Stopping();
  }
  // Makes the next slot, which has been waited for, expect its chunk. Begin starts the copy then;
  // what is between the landing of one chunk and the start of the next leaves memory idle.
  __device__ void Expect(uint32_t bytes) const {
    if (lane == 0) BarrierExpect(SmemAddress(&Ring().full[next.slot]), bytes);
  }
  __device__ void Begin(const char* source, uint32_t bytes) {
    if (lane == 0) {
      char* slot = kRole == kWeightRole ? smem.slot(next.slot) : smem.page_slot(next.slot);
      BulkLoadOnce(SmemAddress(slot), source, bytes, SmemAddress(&Ring().full[next.slot]));
      StoreShared(misc.issued[kRing], chunks + 1);
    }
    __syncwarp();
    next.Advance(SlotCount());
    ++chunks;
  }
  // The block must not end before its copies have landed, whatever else happened.
  __device__ void Drain() {
    for (uint32_t i = min(chunks, uint32_t(SlotCount())); i > 0; --i) {
      next.Retreat(SlotCount());
      while (!BarrierTryWait(SmemAddress(&Ring().full[next.slot]), next.phase)) {
      }
    }
  }
};

// The weights of Router, QkvRope, GateUp, OutputProj, Down and LmHead, as the MMA warps take them.
struct WeightLoader : LoaderGroup<kWeightRole> {
  using LoaderGroup::LoaderGroup;
  RingPlace oldest{};  // The chunk that must have landed before the next is asked for.

  __device__ void Chunk(const char* source, uint32_t bytes) {
    if (!WaitSlot()) return;
    Expect(bytes);
    if (chunks >= uint32_t(p.in_flight_chunks)) {
      Wait(misc.rings[kWeightRing].full[oldest.slot], oldest.phase, kWaitLoader);
      oldest.Advance(p.smem.slot_count);
    }
    Begin(source, bytes);
  }
  // The task's matrix of `slice`, and what its tiles have in common.
  struct Matrix {
    const char* at;
    int steps;  // K-steps; of a chunk:
    int chunk_steps;
  };
  // Values, not places: through a pointer that may lead anywhere, parameters are read from L2.
  __device__ Matrix MatrixOf(int slice, int units) const {
    const ChunkTable& chunks = p.smem.chunks;
    const int of = units - 1;
    const bool always = slice == ActiveCount();
    const bool listed = task().op == OpKind::kGateUp || task().op == OpKind::kDown;
    const int id = listed || !kRacecheck ? smem.slices()[slice].expert : 0;  // Else any, unused.
    switch (task().op) {
      case OpKind::kRouter:
        return {layer().router, p.hidden / 16, chunks.hidden[of]};
      case OpKind::kQkvRope:
        return {layer().qkv, p.hidden / 16, chunks.hidden[of]};
      case OpKind::kOutputProj:
        return {layer().o, p.q_width / 16, chunks.q_width[of]};
      case OpKind::kLmHead:
        return {p.head, p.hidden / 16, chunks.hidden[of]};
      case OpKind::kGateUp:
        return {always ? layer().always_gate_up : layer().gate_up + id * layer().gate_up_bytes,
                p.hidden / 16, chunks.gate_up[of]};
      default:
        if (always) {
          return {layer().always_down, layer().always_width / 16,
                  layer().always_chunk[p.row_tiles - 1][of]};
        }
        return {layer().down + id * layer().down_bytes, layer().expert_width / 16,
                chunks.expert_width[of]};
    }
  }
  // The task's tiles in the MMA warps' order. GateUp: slice by slice of the active list, in blocks
  // of eight rows of both. Down: tile by tile over all slices, as a tile's sum over slices stays in
  // registers.
  __device__ void RunTask() {
    const bool gate_up = task().op == OpKind::kGateUp;
    SliceRange slices{0, 1};
    if (gate_up || task().op == OpKind::kDown) {
      WaitRouting();
      slices = TaskSlices(task(), layer(), ActiveCount());
    }
    const uint32_t tile_units = gate_up ? 8 : 2, unit_bytes = gate_up ? 64 : 256;
    uint32_t unit = task().begin;
#pragma unroll 1
    for (int slice = slices.begin; slice < slices.end && unit < task().end;) {
      const uint32_t units = min(task().end - unit, tile_units);
      const Matrix matrix = MatrixOf(slice, units);
      const int chunk_steps = matrix.chunk_steps;
      const char* source = matrix.at + uint64_t(unit) * unit_bytes * matrix.steps;
#pragma unroll 1
      for (int left = matrix.steps; left > 0; left -= chunk_steps) {
        const uint32_t bytes = min(left, chunk_steps) * unit_bytes * units;
        Chunk(source, bytes);
        source += bytes;
      }
      if (gate_up) {
        unit += tile_units;
        if (unit < task().end) continue;
        unit = task().begin;
        ++slice;
      } else if (++slice == slices.end) {
        slice = slices.begin;
        unit += tile_units;
      }
    }
  }
  __device__ void Run() {
    while (Next() && !Stopping()) RunTask();
    Finish();
    Drain();
  }
};

// K/V pages of the attention tasks: of every row its split's pages, keys before values.
struct KvLoader : LoaderGroup<kKvRole> {
  using LoaderGroup::LoaderGroup;

  // Of the pages of the task's rows, up to 32 of one row: every lane looks up one.
  struct Block {
    int row = 0, first = 0, count = 0;
    uint32_t ids = 0;
  };
  // The block after `block`; `rows`: those of which no page was looked up yet.
  __device__ Block After(const Block& block, const AttentionItem* items, uint32_t& rows) const {
    Block next{block.row, block.first + block.count};
    if (block.count == 0 || next.first >= items[next.row].end) {
      if (rows == 0) return {};
      next.row = __ffs(rows) - 1;
      next.first = items[next.row].begin;
      rows &= rows - 1;
    }
    next.count = min(32, items[next.row].end - next.first);
    const bool full = layer().group == 0;
    const uint32_t* table = full ? p.full_table + uint64_t(next.row) * p.full_stride
                                 : p.window_table + uint64_t(next.row) * p.window_stride;
    const int page = next.first + min(lane, next.count - 1);
    next.ids = __ldg(table + (full ? page : page % misc.ring_size[next.row]));
    return next;
  }
  // Pages are looked up a block ahead: else the ring would run dry where a row begins.
  __device__ void RunTask() {
    const AttentionItem* const items = misc.items[layer().sliding];
    uint32_t rows = misc.item_rows[layer().sliding];
    Block block;
#pragma unroll 1
    do {
      const Block next = After(block, items, rows);
      const char* keys = p.kv_base + p.kv_group_offset[layer().group] +
                         layer().layer_in_group * p.kv_layer_bytes +
                         items[block.row].head * p.kv_tile_bytes;
      const uint64_t page_bytes = p.kv_page_bytes[layer().group];
      const uint64_t values = p.kv_heads * p.kv_tile_bytes;  // Behind the keys.
#pragma unroll 1
      for (int i = 0; i < 2 * block.count; ++i) {
        const uint32_t page = __shfl_sync(~0u, block.ids, i >> 1);
        const char* tile = keys + page * page_bytes + (i & 1) * values;
        if (!WaitSlot()) return;
        Expect(p.kv_tile_bytes);
        Begin(tile, p.kv_tile_bytes);
      }
      block = next;
    } while (block.count > 0);
  }
  __device__ void Run() {
    while (Next() && !Stopping()) {
      if (task().op == OpKind::kAttention) RunTask();
    }
    Finish();
    Drain();
  }
};

}  // namespace baton::cuda
