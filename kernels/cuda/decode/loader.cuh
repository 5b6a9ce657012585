// The loader: two planner threads walk the worker's task list, one for each queue, and write down
// the chunks to come; the issuing thread keeps at most `in_flight_bytes` of bulk copies
// outstanding. Chunks go out in the order consumers want them; a chunk that runs ahead of the other
// queue's next one leaves kReserve slots free for it, so the ring cannot deadlock.
#pragma once

#include "kernels/cuda/decode/waits.cuh"

namespace baton::cuda {

struct Chunk {
  const char* source;
  uint32_t bytes;
};

// Chunks of one matrix tile run: `tiles` given by rows, contiguous in memory.
struct TileRun {
  const char* next = nullptr;
  int units_left = 0;  // 8-row units still to load (the current tile included).
  int steps_left = 0;  // k-steps left in the current tile.
  int steps = 0;       // k-steps of a tile.
  int step_bytes = 0, chunk_steps = 0;
  const uint8_t* table = nullptr;
  __device__ void Start(const char* base, int units, int k_steps, const uint8_t* chunk_table) {
    next = base;
    units_left = units;
    steps = k_steps;
    table = chunk_table;
    StartTile();
  }
  __device__ void StartTile() {
    steps_left = steps;
    step_bytes = units_left >= 2 ? 512 : 256;
    chunk_steps = table[units_left >= 2];
  }
  __device__ bool done() const { return units_left <= 0; }
  __device__ Chunk Take() {
    const int count = min(steps_left, chunk_steps);
    const Chunk chunk{next, static_cast<uint32_t>(count * step_bytes)};
    next += chunk.bytes;
    steps_left -= count;
    if (steps_left == 0) {
      units_left -= 2;
      StartTile();
    }
    return chunk;
  }
};

// Walks the tasks whose data is at known addresses: router, QKV, KV pages, O, head.
struct StaticCursor {
  const DecodeParams& p;
  const ControlSmem& misc;
  const Task* tasks;
  int task_count;
  int worker;
  int task = -1;  // Index of the task whose chunk is next; task_count at the end.
  TileRun run{};
  // Attention.
  int row = -1;
  int page = 0, page_end = 0, group_begin = 0,
      head = 0;  // Next page, split's end, its group's first page.
  bool value_next = false;

  __device__ bool done() const { return task >= task_count; }
  __device__ bool Ready() const { return true; }

  __device__ bool NextAttentionRow(const LayerDevice& layer) {
    while (++row < p.row_limit) {
      if (!(misc.active_rows >> row & 1)) continue;
      const SplitPlan plan = PlanSplits(p, misc.position[row], layer.sliding);
      const int index = AttentionIndex(p, worker, row, plan.split_count);
      if (index < 0) continue;
      head = index % p.kv_heads;
      page = plan.first_page + index / p.kv_heads * plan.pages_per_split;
      page_end = min(page + plan.pages_per_split, plan.first_page + plan.page_count);
      group_begin = page;
      value_next = false;
      return true;
    }
    return false;
  }

  // Moves to the next task with data of this queue, from the one after `task`.
  __device__ void Seek() {
    row = -1;
    for (++task; task < task_count; ++task) {
      const Task t = tasks[task];
      const LayerDevice& layer = p.layers[t.layer];
      const int units = t.end - t.begin;
      if (t.op == OpKind::kRouter || t.op == OpKind::kQkvRope) {
        const char* base = t.op == OpKind::kRouter ? layer.router : layer.qkv;
        run.Start(base + uint64_t(t.begin) * 16 * p.hidden, units, p.hidden / 16,
                  p.smem.chunks.hidden);
        if (!run.done()) return;
      } else if (t.op == OpKind::kOutputProj) {
        run.Start(layer.o + uint64_t(t.begin) * 16 * p.q_width, units, p.q_width / 16,
                  p.smem.chunks.q_width);
        if (!run.done()) return;
      } else if (t.op == OpKind::kLmHead) {
        run.Start(p.head + uint64_t(t.begin) * 16 * p.hidden, units, p.hidden / 16,
                  p.smem.chunks.hidden);
        if (!run.done()) return;
      } else if (t.op == OpKind::kAttention) {
        if (NextAttentionRow(layer)) return;
        row = -1;
      }
    }
  }

  __device__ Chunk Take() {
    if (row < 0) {
      const Chunk chunk = run.Take();
      if (run.done()) Seek();
      return chunk;
    }
    const LayerDevice& layer = p.layers[tasks[task].layer];
    const uint32_t id =
        layer.group == 0
            ? __ldg(p.full_table + uint64_t(row) * p.full_stride + page)
            : __ldg(p.window_table + uint64_t(row) * p.window_stride + page % misc.ring_size[row]);
    const uint64_t offset = p.kv_group_offset[layer.group] + id * p.kv_page_bytes[layer.group] +
                            layer.layer_in_group * p.kv_layer_bytes +
                            uint64_t((value_next ? p.kv_heads : 0) + head) * p.kv_tile_bytes;
    const Chunk chunk{p.kv_base + offset, static_cast<uint32_t>(p.kv_tile_bytes)};
    const int group_end = min(group_begin + kPageGroup, page_end);
    if (++page < group_end) return chunk;
    if (!value_next) {
      value_next = true;
      page = group_begin;
    } else {
      value_next = false;
      group_begin = page;
      if (page == page_end && !NextAttentionRow(layer)) Seek();
    }
    return chunk;
  }
};

// Walks GateUp and Down: slices of the layer's active list, known once its routing is. GateUp goes
// slice by slice, Down tile by tile over all slices (its sum over slices stays in registers).
struct RoutedCursor {
  const DecodeParams& p;
  const Smem& smem;
  const Task* tasks;
  int task_count;
  int task = -1;
  bool started = false;  // The current task's first slice is set up.
  SliceRange slices{};
  int active_count = 0, slice = 0, unit = 0, units_left = 0;
  const char* next = nullptr;
  int steps_left = 0, step_bytes = 0, steps = 0, chunk_steps = 0;

  __device__ bool done() const { return task >= task_count; }

  __device__ void Seek() {
    started = false;
    for (++task; task < task_count; ++task) {
      if (tasks[task].op == OpKind::kGateUp || tasks[task].op == OpKind::kDown) return;
    }
  }

  // Whether Take may be called: the layer's routing is known. Skips tasks that turn out empty.
  __device__ bool Ready() {
    while (!done()) {
      if (started) return true;
      const Task t = tasks[task];
      if (!BarrierTest(SmemAddress(&smem.misc().routing), t.layer & 1)) return false;
      active_count = smem.misc().active_count;
      slices = TaskSlices(t, p.layers[t.layer], active_count);
      slice = slices.begin;
      unit = t.begin;
      units_left = t.end - t.begin;
      if (slice < slices.end) {
        started = true;
        StartTile(t);
        return true;
      }
      Seek();
    }
    return false;
  }

  __device__ void StartTile(const Task& t) {
    const LayerDevice& layer = p.layers[t.layer];
    const bool always = slice == active_count;
    const int id = always ? 0 : smem.active_id()[slice];
    if (t.op == OpKind::kGateUp) {
      next = (always ? layer.always_gate_up : layer.gate_up + id * layer.gate_up_bytes) +
             uint64_t(unit) * 4 * p.hidden;
      steps = p.hidden / 16;
      step_bytes = 64 * min(units_left, 8);
      chunk_steps = p.smem.chunks.gate_up[min(units_left, 8)];
    } else {
      const int width = always ? layer.always_width : layer.expert_width;
      next = (always ? layer.always_down : layer.down + id * layer.down_bytes) +
             uint64_t(unit) * 16 * width;
      steps = width / 16;
      const int full = units_left >= 2;
      step_bytes = full ? 512 : 256;
      chunk_steps =
          always ? layer.always_chunk[p.row_tiles - 1][full] : p.smem.chunks.expert_width[full];
    }
    steps_left = steps;
  }

  // To the next tile of the task; false at its end.
  __device__ bool NextTile(const Task& t) {
    if (t.op == OpKind::kGateUp) {
      if (units_left > 8) {
        unit += 8;
        units_left -= 8;
        return true;
      }
      unit = t.begin;
      units_left = t.end - t.begin;
      return ++slice < slices.end;
    }
    if (++slice < slices.end) return true;
    slice = slices.begin;
    unit += 2;
    units_left -= 2;
    return units_left > 0;
  }

  __device__ Chunk Take() {
    const int count = min(steps_left, chunk_steps);
    const Chunk chunk{next, static_cast<uint32_t>(count * step_bytes)};
    next += chunk.bytes;
    steps_left -= count;
    if (steps_left == 0) {
      const Task t = tasks[task];
      if (NextTile(t)) {
        StartTile(t);
      } else {
        Seek();
      }
    }
    return chunk;
  }
};

// One thread: plans the chunks of one queue, up to 16 ahead of the issuing thread.
template <typename Cursor>
static __device__ void RunPlanner(const DecodeParams& p, ControlSmem& misc, Cursor& cursor, int q) {
  volatile uint32_t* planned = &misc.planned[q];
  volatile uint32_t* issued = &misc.issued[q];
  volatile uint32_t* next_task = &misc.next_task[q];
  cursor.Seek();
  *next_task = cursor.done() ? ~0u : cursor.task;
  uint32_t count = 0;
  while (!cursor.done()) {
    for (uint32_t spin = 1; count - *issued >= kQueueEntries || !cursor.Ready(); ++spin) {
      if (cursor.done()) break;
      __nanosleep(200);
      if ((spin & 255) == 0 && Aborted(p, misc)) {
        *next_task = ~0u;
        return;
      }
    }
    if (cursor.done()) break;
    const uint32_t task = cursor.task;
    const Chunk chunk = cursor.Take();
    misc.plan[q][count & 15] = {chunk.source, chunk.bytes, task};
    __threadfence_block();
    *planned = ++count;
    __threadfence_block();
    *next_task = cursor.done() ? ~0u : cursor.task;
  }
  *next_task = ~0u;
}

// The issuing thread's view of one queue.
struct QueueHead {
  uint32_t issued = 0;   // Chunks issued.
  uint32_t drained = 0;  // Chunks that all consumers have released.
};

static __device__ __forceinline__ void Reclaim(ControlSmem& misc, int q, QueueHead& queue,
                                               uint32_t& free_slots) {
  while (queue.drained != queue.issued &&
         BarrierTest(SmemAddress(&misc.empty[q][queue.drained & 15]), queue.drained >> 4 & 1)) {
    free_slots |= 1u << misc.slot[q][queue.drained & 15];
    ++queue.drained;
  }
}

// One thread. Returns when everything planned was issued and has landed.
static __device__ void RunIssuer(const DecodeParams& p, const Smem& smem, int worker) {
  ControlSmem& misc = smem.misc();
  const volatile uint32_t* planned = misc.planned;
  const volatile uint32_t* next_task = misc.next_task;
  QueueHead fixed, routed;
  uint32_t free_slots = (1u << p.smem.slot_count) - 1;
  // Outstanding copies, oldest in the low byte: queue | parity << 1 | entry << 2, and their sizes
  // in 256-byte units.
  uint64_t flight = 0, flight_sizes = 0;
  int flight_count = 0;
  uint32_t flight_bytes = 0;
  uint64_t spin_start = 0;
  uint32_t idle_spins = 0;
  const auto wait_oldest = [&] {
    const uint32_t record = flight & 0xff;
    const uint32_t barrier = SmemAddress(&misc.full[record & 1][record >> 2]);
    while (!BarrierTryWait(barrier, record >> 1 & 1)) {
    }
    flight_bytes -= (flight_sizes & 0xff) << 8;
    flight >>= 8;
    flight_sizes >>= 8;
    --flight_count;
  };
  const auto issue = [&](int q, QueueHead& queue) {
    const uint32_t entry = queue.issued & 15, parity = queue.issued >> 4 & 1;
    const PlannedChunk chunk = misc.plan[q][entry];
    const uint32_t size = (chunk.bytes + 255) >> 8;
    while (flight_count > 0 &&
           (flight_count == 8 || flight_bytes + (size << 8) > uint32_t(p.in_flight_bytes)))
      wait_oldest();
    const uint32_t slot = __ffs(free_slots) - 1;
    free_slots &= free_slots - 1;
    misc.slot[q][entry] = slot;
    const uint32_t barrier = SmemAddress(&misc.full[q][entry]);
    BarrierExpect(barrier, chunk.bytes);
    BulkLoad(SmemAddress(smem.slot(slot)), chunk.source, chunk.bytes, barrier);
    *const_cast<volatile uint32_t*>(&misc.issued[q]) = ++queue.issued;
    flight |= uint64_t(uint32_t(q) | parity << 1 | entry << 2) << (8 * flight_count);
    flight_sizes |= uint64_t(size) << (8 * flight_count);
    flight_bytes += size << 8;
    ++flight_count;
  };
  while (true) {
    Reclaim(misc, kStaticQueue, fixed, free_slots);
    Reclaim(misc, kRoutedQueue, routed, free_slots);
    // The planner's next task is read before its count: a chunk planned in between only makes it
    // look later.
    const uint32_t fixed_next = next_task[kStaticQueue], routed_next = next_task[kRoutedQueue];
    __threadfence_block();
    const bool fixed_ready = planned[kStaticQueue] != fixed.issued;
    const bool routed_ready = planned[kRoutedQueue] != routed.issued;
    const uint32_t fixed_task =
        fixed_ready ? misc.plan[kStaticQueue][fixed.issued & 15].task : fixed_next;
    const uint32_t routed_task =
        routed_ready ? misc.plan[kRoutedQueue][routed.issued & 15].task : routed_next;
    if (fixed_task == ~0u && routed_task == ~0u) break;
    const int free_count = __popc(free_slots);
    const bool fixed_first = fixed_task < routed_task;
    const bool first_ready = fixed_first ? fixed_ready : routed_ready;
    const bool other_ready = fixed_first ? routed_ready : fixed_ready;
    if (first_ready ? free_count > 0 : other_ready && free_count > kReserve) {
      if (fixed_first == first_ready) {
        issue(kStaticQueue, fixed);
      } else {
        issue(kRoutedQueue, routed);
      }
      idle_spins = 0;
      continue;
    }
    if ((++idle_spins & 255) == 0) {
      const uint64_t now = GlobalTimerNs();
      if (idle_spins == 256) spin_start = now;
      if (now - spin_start > 2 * p.timeout_ns) {
        RaiseError(p, misc, WaitContext{uint32_t(worker), fixed_task, routed_task, 0}, kWaitLoader,
                   fixed.issued - fixed.drained, routed.issued - routed.drained, free_count);
      }
      if (Aborted(p, misc)) break;
    }
  }
  while (flight_count > 0) wait_oldest();
}

}  // namespace baton::cuda
