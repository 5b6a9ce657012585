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

  __device__ RingBarriers& Ring() const { return kRole == kWeightRole ? misc.weights : misc.pages; }
  __device__ int SlotCount() const {
    return kRole == kWeightRole ? p.smem.slot_count : p.smem.page_slot_count;
  }
  __device__ bool Stopping() const { return __any_sync(~0u, Ending(misc)); }
  // Whether the next slot is free; false: the step is ending.
  __device__ bool WaitSlot() const {
    this->Wait(Ring().empty[next.slot], next.phase ^ 1, kWaitLoader);
    return !Stopping();
  }
  // Starts the copy of a chunk to the next slot, which has been waited for.
  __device__ void Issue(const char* source, uint32_t bytes) {
    if (lane == 0) {
      const uint32_t full = SmemAddress(&Ring().full[next.slot]);
      char* slot = kRole == kWeightRole ? smem.slot(next.slot) : smem.page_slot(next.slot);
      BarrierExpect(full, bytes);
      BulkLoad(SmemAddress(slot), source, bytes, full);
    }
    __syncwarp();
    next.Advance(SlotCount());
    ++chunks;
    if (kRole == kWeightRole && lane == 0)
      *const_cast<volatile uint32_t*>(&misc.weights_issued) = chunks;
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
    if (chunks >= uint32_t(p.in_flight_chunks)) {
      Wait(misc.weights.full[oldest.slot], oldest.phase, kWaitLoader);
      oldest.Advance(p.smem.slot_count);
    }
    Issue(source, bytes);
  }
  // A tile of `steps` k-steps.
  __device__ void Tile(const char* source, int steps, int step_bytes, int chunk_steps) {
    for (; steps > 0; steps -= chunk_steps) {
      const uint32_t bytes = min(steps, chunk_steps) * step_bytes;
      Chunk(source, bytes);
      source += bytes;
    }
  }
  // The task's rows of a matrix of `steps` k-steps: tiles of two units.
  __device__ void Rows(const char* matrix, int steps, const uint8_t (&chunk_steps)[2]) {
    for (uint32_t unit = task().begin; unit < task().end; unit += 2) {
      const int full = unit + 2 <= task().end;
      Tile(matrix + uint64_t(unit) * 256 * steps, steps, full ? 512 : 256, chunk_steps[full]);
    }
  }
  // Slice by slice of the active list, in blocks of eight rows of both.
  __device__ void GateUp() {
    const SliceRange slices = TaskSlices(task(), layer(), ActiveCount());
    for (int slice = slices.begin; slice < slices.end; ++slice) {
      const char* matrix = slice == ActiveCount()
                               ? layer().always_gate_up
                               : layer().gate_up + smem.active_id()[slice] * layer().gate_up_bytes;
      for (uint32_t row = task().begin; row < task().end; row += 8) {
        const int rows = min(task().end - row, 8u);
        Tile(matrix + uint64_t(row) * 4 * p.hidden, p.hidden / 16, 64 * rows,
             p.smem.chunks.gate_up[rows]);
      }
    }
  }
  // Tile by tile over all slices: a tile's sum over slices stays in registers.
  __device__ void Down() {
    const int active = ActiveCount();
    const int slices = TaskSlices(task(), layer(), active).end;
    for (uint32_t unit = task().begin; unit < task().end; unit += 2) {
      const int full = unit + 2 <= task().end;
      for (int slice = 0; slice < slices; ++slice) {
        const bool always = slice == active;
        const int width = always ? layer().always_width : layer().expert_width;
        const char* matrix = always ? layer().always_down
                                    : layer().down + smem.active_id()[slice] * layer().down_bytes;
        Tile(matrix + uint64_t(unit) * 16 * width, width / 16, full ? 512 : 256,
             always ? layer().always_chunk[p.row_tiles - 1][full]
                    : p.smem.chunks.expert_width[full]);
      }
    }
  }
  __device__ void Run() {
    while (Next() && !Stopping()) {
      const ChunkTable& chunks = p.smem.chunks;
      switch (task().op) {
        case OpKind::kRouter:
          Rows(layer().router, p.hidden / 16, chunks.hidden);
          break;
        case OpKind::kQkvRope:
          Rows(layer().qkv, p.hidden / 16, chunks.hidden);
          break;
        case OpKind::kOutputProj:
          Rows(layer().o, p.q_width / 16, chunks.q_width);
          break;
        case OpKind::kLmHead:
          Rows(p.head, p.hidden / 16, chunks.hidden);
          break;
        default:
          WaitRouting();
          if (task().op == OpKind::kGateUp) {
            GateUp();
          } else {
            Down();
          }
      }
    }
    Finish();
    Drain();
  }
};

// K/V pages of the attention tasks: of every row its split's pages, keys before values.
struct KvLoader : LoaderGroup<kKvRole> {
  using LoaderGroup::LoaderGroup;

  // Every lane looks up one of the next 32 pages.
  __device__ void Split(int row, const AttentionItem& item) {
    const uint32_t* table = layer().group == 0 ? p.full_table + uint64_t(row) * p.full_stride
                                               : p.window_table + uint64_t(row) * p.window_stride;
    const char* keys = p.kv_base + p.kv_group_offset[layer().group] +
                       layer().layer_in_group * p.kv_layer_bytes + item.head * p.kv_tile_bytes;
    const uint64_t values = p.kv_heads * p.kv_tile_bytes;
    uint32_t ids = 0;
    for (int page = item.begin; page < item.end; ++page) {
      const int at = (page - item.begin) & 31;
      if (at == 0) {
        const int of = min(page + lane, item.end - 1);
        ids = __ldg(table + (layer().group == 0 ? of : of % misc.ring_size[row]));
      }
      const char* tile = keys + __shfl_sync(~0u, ids, at) * p.kv_page_bytes[layer().group];
#pragma unroll 1
      for (int i = 0; i < 2; ++i, tile += values) {
        if (!WaitSlot()) return;
        Issue(tile, p.kv_tile_bytes);
      }
    }
  }
  __device__ void Run() {
    while (Next() && !Stopping()) {
      if (task().op != OpKind::kAttention) continue;
      const int kind = layer().sliding;
      for (uint32_t rows = misc.item_rows[kind]; rows != 0; rows &= rows - 1) {
        const int row = __ffs(rows) - 1;
        Split(row, misc.items[kind][row]);
      }
    }
    Finish();
    Drain();
  }
};

}  // namespace baton::cuda
