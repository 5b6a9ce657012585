// The loader: three planner threads walk the worker's task list, one for each queue, and write down
// the chunks to come; the issuing warp keeps at most `in_flight_bytes` of bulk copies
// outstanding. Chunks go out in task order; a chunk that runs ahead of another queue's next one
// leaves ReservedSlots free for it, so the ring cannot deadlock.
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

// Walks the weights at known addresses: router, QKV, O, head.
struct StaticCursor {
  const DecodeParams& p;
  const Task* tasks;
  int task_count;
  int task = -1;  // Index of the task whose chunk is next; task_count at the end.
  TileRun run{};

  __device__ bool done() const { return task >= task_count; }
  __device__ bool Ready() const { return true; }

  // Moves to the next task with data of this queue, from the one after `task`.
  __device__ void Seek() {
    for (++task; task < task_count; ++task) {
      const Task t = tasks[task];
      const LayerDevice& layer = p.layers[min(int(t.layer), p.layer_count - 1)];
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
      }
    }
  }

  __device__ Chunk Take() {
    const Chunk chunk = run.Take();
    if (run.done()) Seek();
    return chunk;
  }
};

// Walks the KV pages of the attention tasks: of every row, its split's pages in groups, a group's
// keys before its values.
struct KvCursor {
  const DecodeParams& p;
  const ControlSmem& misc;
  const Task* tasks;
  int task_count;
  int worker;
  int task = -1;
  int row = -1, head = 0;
  int group_begin = 0, group_end = 0, page_end = 0;  // Pages of the group, end of the split.
  int at = 0;                                        // Next page of the group.
  bool value_next = false;
  uint4 page_ids{};  // Of the group: looked up together.

  __device__ bool done() const { return task >= task_count; }
  __device__ bool Ready() const { return true; }

  __device__ void StartGroup(const LayerDevice& layer) {
    group_end = min(group_begin + kPageGroup, page_end);
    at = 0;
    value_next = false;
    const uint32_t* table = layer.group == 0 ? p.full_table + uint64_t(row) * p.full_stride
                                             : p.window_table + uint64_t(row) * p.window_stride;
    const auto look_up = [&](int i) {
      const int page = min(group_begin + i, group_end - 1);
      return __ldg(table + (layer.group == 0 ? page : page % misc.ring_size[row]));
    };
    static_assert(kPageGroup == 4);
    page_ids = make_uint4(look_up(0), look_up(1), look_up(2), look_up(3));
  }
  __device__ bool NextRow(const LayerDevice& layer) {
    while (++row < p.row_limit) {
      if (!(misc.active_rows >> row & 1)) continue;
      const SplitPlan plan = PlanSplits(p, misc.position[row], layer.sliding);
      const int index = AttentionIndex(p, worker, row, plan.split_count);
      if (index < 0) continue;
      head = index % p.kv_heads;
      group_begin = plan.first_page + index / p.kv_heads * plan.pages_per_split;
      page_end = min(group_begin + plan.pages_per_split, plan.first_page + plan.page_count);
      StartGroup(layer);
      return true;
    }
    return false;
  }
  __device__ void Seek() {
    for (++task; task < task_count; ++task) {
      if (tasks[task].op != OpKind::kAttention) continue;
      row = -1;
      if (NextRow(p.layers[tasks[task].layer])) return;
    }
  }
  __device__ Chunk Take() {
    const LayerDevice& layer = p.layers[tasks[task].layer];
    const uint32_t low = at & 1 ? page_ids.y : page_ids.x, high = at & 1 ? page_ids.w : page_ids.z;
    const uint32_t id = at & 2 ? high : low;
    const uint64_t offset = p.kv_group_offset[layer.group] + id * p.kv_page_bytes[layer.group] +
                            layer.layer_in_group * p.kv_layer_bytes +
                            uint64_t((value_next ? p.kv_heads : 0) + head) * p.kv_tile_bytes;
    const Chunk chunk{p.kv_base + offset, static_cast<uint32_t>(p.kv_tile_bytes)};
    if (group_begin + ++at < group_end) return chunk;
    if (!value_next) {
      value_next = true;
      at = 0;
    } else if (group_end < page_end) {
      group_begin = group_end;
      StartGroup(layer);
    } else if (!NextRow(layer)) {
      Seek();
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
  int routed = -1;  // Layer whose routing was seen; asked once a layer, as in WaitRouting.
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
      if (routed != t.layer) {
        if (smem.misc().active_rows != 0 &&
            !BarrierTest(SmemAddress(&smem.misc().routing), t.layer & 1)) {
          return false;
        }
        routed = t.layer;
        active_count = smem.misc().active_count;
      }
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

// One thread: plans the chunks of one queue, up to 16 ahead of the issuing warp.
template <typename Cursor>
static __device__ void RunPlanner(const DecodeParams& p, ControlSmem& misc, const Task* tasks,
                                  Cursor& cursor, int q) {
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
    const uint32_t flags = tasks[task].op == OpKind::kGateUp ? kExpertChunk : 0;
    misc.plan[q][count & 15] = {chunk.source, chunk.bytes | flags, task};
    __threadfence_block();
    *planned = ++count;
    __threadfence_block();
    *next_task = cursor.done() ? ~0u : cursor.task;
  }
  *next_task = ~0u;
}

// What one lane of the issuing warp knows of its slot of the ring.
struct SlotState {
  bool busy = false;    // Holds a chunk,
  bool landed = false;  // which has arrived.
  int queue = 0;
  uint32_t bytes = 0;
  uint32_t full = 0, empty = 0, parity = 0;  // Barriers of the chunk's entry.

  // Moves on when the chunk has landed, or all consumers have released it.
  __device__ void Poll() {
    if (!busy || !BarrierTest(landed ? empty : full, parity)) return;
    if (landed) {
      busy = landed = false;
    } else {
      landed = true;
    }
  }
};

// One warp; lane s watches slot s, lanes 0 to 2 the queues' next chunks. Returns when everything
// planned was issued and has landed.
static __device__ void RunIssuer(const DecodeParams& p, const Smem& smem, int worker, int lane) {
  ControlSmem& misc = smem.misc();
  const volatile uint32_t* planned = misc.planned;
  const volatile uint32_t* next_task = misc.next_task;
  const int reserve = ReservedSlots(p.smem.slot_count);
  // KV chunks leave the other slots to the experts' stream as long as that has chunks to load:
  // pages may have to wait for queries, and must not keep the slots meanwhile.
  const int kv_most = max(1, p.smem.slot_count - 3);
  const bool has_slot = lane < p.smem.slot_count;
  SlotState slot;
  uint32_t issued = 0;  // Lanes 0 to 2: chunks issued from the queue.
  uint64_t spin_start = 0;
  for (uint32_t idle = 0;;) {
    slot.Poll();
    uint32_t free = __ballot_sync(~0u, has_slot && !slot.busy);
    uint32_t flying = __reduce_add_sync(~0u, slot.busy && !slot.landed ? slot.bytes : 0u);
    const int kv_slots = __popc(__ballot_sync(~0u, slot.busy && slot.queue == kKvQueue));
    bool ready = false;
    uint32_t task = ~0u, bytes = 0;
    if (lane < kQueues) {
      // The planner's next task is read before its count: a chunk planned in between only makes it
      // look later.
      task = next_task[lane];
      if (planned[lane] != issued) {
        const PlannedChunk& chunk = misc.plan[lane][issued & 15];
        ready = true;
        task = chunk.task;
        bytes = chunk.bytes;
      }
    }
    const bool experts_wait = __ballot_sync(~0u, ready && (bytes & kExpertChunk)) != 0;
    if (lane == kKvQueue && experts_wait && kv_slots >= kv_most) {
      ready = false;
      task = ~0u;
    }
    const uint32_t first_task = __reduce_min_sync(~0u, task);
    const uint32_t ready_task = __reduce_min_sync(~0u, ready ? task : ~0u);
    if (first_task == ~0u) break;
    const int wanted_slots = ready_task == first_task ? 1 : reserve + 1;
    const int q = __ffs(__ballot_sync(~0u, ready && task == ready_task)) - 1;
    const uint32_t size = __shfl_sync(~0u, bytes, max(q, 0)) & ~15u;
    // The choice made, waits a while for room in the ring and among the copies in flight.
    bool room = false;
    for (int spin = 0; q >= 0 && spin < 16; ++spin) {
      room = __popc(free) >= wanted_slots &&
             (flying == 0 || flying + size <= uint32_t(p.in_flight_bytes));
      if (room) break;
      slot.Poll();
      free = __ballot_sync(~0u, has_slot && !slot.busy);
      flying = __reduce_add_sync(~0u, slot.busy && !slot.landed ? slot.bytes : 0u);
    }
    if (room) {
      const uint32_t count = __shfl_sync(~0u, issued, q), entry = count & 15;
      const int to = __ffs(free) - 1;
      if (lane == to) {
        slot = {.busy = true,
                .landed = false,
                .queue = q,
                .bytes = size,
                .full = SmemAddress(&misc.full[q][entry]),
                .empty = SmemAddress(&misc.empty[q][entry]),
                .parity = count >> 4 & 1};
        misc.slot[q][entry] = to;
        BarrierExpect(slot.full, size);
        BulkLoad(SmemAddress(smem.slot(to)), misc.plan[q][entry].source, size, slot.full);
      }
      __syncwarp();
      if (lane == q) *const_cast<volatile uint32_t*>(&misc.issued[q]) = ++issued;
      idle = 0;
      continue;
    }
    if ((++idle & 255) != 0) continue;
    const uint64_t now = GlobalTimerNs();
    if (idle == 256) spin_start = now;
    bool stop = false;
    if (lane == 0) {
      if (now - spin_start > 2 * p.timeout_ns) {
        RaiseError(p, misc, WaitContext{uint32_t(worker), first_task, 0, 0}, kWaitLoader,
                   ready_task, wanted_slots, __popc(free));
      }
      stop = Aborted(p, misc);
    }
    if (__any_sync(~0u, stop)) break;
  }
  while (__any_sync(~0u, slot.busy && !slot.landed)) slot.Poll();
}

}  // namespace baton::cuda
