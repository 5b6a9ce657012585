// What the decode kernel is given: plain structs of sizes and device pointers, shared by host and
// device.
//
// Layouts. A "fragment buffer" holds activations [rows, K] as the B operand of mma.m16n8k16:
// [row tile of 8][K / 16][lane][8 bytes], lane = 4 (row % 8) + t holding k = 16 s + 2t, 2t+1, 2t+8,
// 2t+9. A weight matrix [out, K] is packed per worker: its owned rows, in tiles of 16 rows (8 at an
// odd end), each [K / 16][lane][16 bytes] in A-operand order (8 bytes a lane for an 8-row tile).
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "kernels/task_graph/task.h"

namespace baton::cuda {

inline constexpr int kMaxRows = 32;
inline constexpr int kMaxStops = 16;
// The warps of a worker by role, each a whole number of warp groups (four warps): registers are
// handed out by warp group.
inline constexpr int kMmaWarps = 8;
inline constexpr int kMmaThreads = kMmaWarps * 32;
inline constexpr int kTeamWarps = 4;       // MMA warps of a team: see mma_group.cuh.
inline constexpr int kAttentionWarps = 4;  // Routing, attention and its merge.
inline constexpr int kPairWarps = 2;       // Attention warps of a pair: see attention_group.cuh.
inline constexpr int kAttentionThreads = kAttentionWarps * 32;
inline constexpr int kEpilogueWarps = 4;  // What becomes of the products; embedding and sampling.
inline constexpr int kEpilogueThreads = kEpilogueWarps * 32;
inline constexpr int kLoaderWarps = 4;  // Weights, pages, Down's operands; one watches for hangs.
inline constexpr int kThreads =
    kMmaThreads + kAttentionThreads + kEpilogueThreads + kLoaderWarps * 32;
inline constexpr int kMaxSplits = 255;      // Of a row's cached keys; a byte.
inline constexpr int kMaxRowPages = 65535;  // 16 bits.
inline constexpr int kMaxSlots = 12;        // Of a ring.
inline constexpr int kHeadDim = 128;
// K-steps that xs has room for at least, with one row tile and with more: see DirectRows,
// OutputRows and DownRows.
inline constexpr int kXsStepsOne = 144;
inline constexpr int kXsSteps = 128;
inline constexpr int kMaxTopK = 16;        // Experts a token.
inline constexpr int kMaxGroup = 8;        // Query heads a KV head.
inline constexpr int kEpochLayers = 1024;  // Epochs of packets a step; more than layers, see
                                           // kNoPacket.
inline constexpr int kNoPacket = 0xff;     // Byte of cleared packets: the epoch of no layer.
inline constexpr int kCounterStride = 32;  // u32 words between counters: one 128-byte line each.

struct alignas(16) LayerDevice {
  const char* router;
  const char* qkv;
  const char* o;
  const char* gate_up;  // Expert e at e * gate_up_bytes; worker's rows in blocks of up to 8 gate +
                        // 8 up rows.
  const char* down;     // Expert e at e * down_bytes.
  const char* always_gate_up;  // The dense network or the shared expert.
  const char* always_down;
  const uint16_t* norm;
  uint64_t gate_up_bytes;
  uint64_t down_bytes;
  int expert_width;
  int expert_count;  // 0 in a dense layer.
  int always_width;  // 0: none.
  float ffn_scale;   // 0.5 for the shared-expert average, else 1.
  int rope;
  int sliding;
  int group;  // KvGroup
  int layer_in_group;
  uint32_t routing_counter;  // What must be complete before the layer's active list can be made:
                             // router, or x.
  uint32_t routing_producers;
  uint8_t always_chunk[4][2];  // [row tiles - 1][8-row tile, 16-row tile]: k-steps a chunk of
                               // always_down.
};

// Per-row state that lives on the device between steps. Structure of arrays, [kMaxRows] each.
struct RowState {
  int active[kMaxRows];
  int token[kMaxRows];
  int position[kMaxRows];
  int remaining[kMaxRows];
  int stop_count[kMaxRows];
  int stop_ids[kMaxRows][kMaxStops];
  float temperature[kMaxRows];
  uint64_t seed[kMaxRows];
  uint64_t row_id[kMaxRows];
  int ring_size[kMaxRows];  // Window-group pages.
};

// One change of the rows before a step, in pinned memory.
struct RowUpdate {
  int slot;
  int join;  // 0: leave, if the slot still holds row_id.
  int token, position, remaining, stop_count, ring_size;
  float temperature;
  uint64_t seed, row_id;
  int stop_ids[kMaxStops];
};

// One row's result of one step, in pinned host memory. `tag` is written last, with release at
// system scope: a ResultTag, state 0 = idle row, 1 = running, 2 = stop, 3 = length.
struct alignas(32) RowResultSlot {
  uint64_t row_id;
  int token;
  float logprob;
  uint64_t tag;
  uint64_t expert_sum;  // Active experts of the step, added up over layers.
};

// Who waited for what when a task took too long; in pinned host memory. `raised` is written last.
struct ErrorSlot {
  uint32_t kind;  // A WaitKind (smem.cuh).
  uint32_t worker;
  uint32_t task;  // Index in the worker's list.
  uint32_t op;
  uint32_t layer;
  uint32_t counter;
  uint32_t wanted;
  uint32_t seen;
  uint64_t raised;  // RaisedBy a step; 0 = none.
};

// Always-on counters of one worker, added up over steps; cycles of MMA thread 0.
struct WorkerStats {
  uint64_t cycles;
  uint64_t wait_memory;
  uint64_t wait_routing;
  uint64_t join_and_norm;  // Until x was there and normalised: the wait and the work.
  uint64_t wait_other;     // For what output projection and Down multiply.
};

// Whether the kernel can keep a trace. To ask at every task whether it should costs time
// (tests/bench/RESULTS.md).
#ifdef BATON_DECODE_TRACE
inline constexpr bool kTraced = true;
#else
inline constexpr bool kTraced = false;
#endif
// When a task begins, its waits for other workers are over, its first chunk of weights or page of
// keys is there, its products are made, and others can see them. It has those that it comes by.
enum TracePhase { kTaskBegins, kTaskWaited, kTaskLoaded, kTaskDone, kTaskPublished, kTracePhases };
struct TraceEvent {
  uint64_t time_ns;  // 0: none.
  uint32_t op;
  uint32_t layer;
};

struct HeadPartial {
  float key;
  int token;
  float logit;
  float max;
  float sum;
  float pad[3];
};

// A worker's part of a row's pages that has so many or more is the work of both pairs of attention
// warps, which take its pages by turns: whether it is depends on the row alone.
inline constexpr int kSharedPages = 8;

// K-steps a chunk, by width and bytes a k-step: worked out once on the host, used alike by the
// loader and consumers.
struct ChunkTable {
  uint8_t gate_up[8];  // [rows of the block - 1]
  uint8_t hidden[2];   // [8-row tile, 16-row tile]
  uint8_t q_width[2];
  uint8_t expert_width[2];
};

struct SmemPlan {
  uint32_t ring;           // Weights: slot_count * slot_bytes
  uint32_t page_ring;      // K/V tiles: page_slot_count * kv_tile_bytes
  uint32_t xs;             // normalised x fragments, [NT] rows of xs_row_bytes
  uint32_t xs_row_bytes;   // of max(hidden / 16, kXsSteps) k-steps
  uint32_t operand_bytes;  // Of xs, for Down's operands: all but the warps' sums.
  uint32_t norm;           // bf16 [hidden]: the norm's weights
  uint32_t norm_partial;   // float32 [2][warp][8 NT]; both lie in `reduce` if NT > 1.
  uint32_t reduce;         // The MMA warps' partial tiles, [stage][warp of the tile][128] float32.
  uint32_t slices;         // Slice [experts + 1]
  uint32_t slice_scores;   // bf16 [experts + 1][8 NT], or [8 NT][1 + experts a token]: see smem.cuh
  uint32_t slice_rows;     // u8, the same, where rows are listed
  uint32_t experts;        // u32 [experts] row masks, then u16 [experts] places
  uint32_t keep;           // bf16 x and what is to be added to it: 2 * [tiles][128 NT]
  uint32_t misc;           // ControlSmem
  uint32_t total;
  int slot_count;
  int slot_bytes;
  int page_slot_count;
  ChunkTable chunks;
};

struct DecodeParams {
  // Geometry.
  int hidden, query_heads, kv_heads, group_heads, vocab, layer_count;
  int q_width, kv_width;
  int worker_count, max_splits;
  int task_stride;
  int expert_limit;  // Most experts of a layer, >= 1.
  int row_tiles;     // NT: row tiles of 8 in every fragment buffer of this launch.
  int norm_is_layer_norm;
  float norm_epsilon;
  float logit_scale;
  float attention_scale;            // 1 / sqrt(head_dim)
  float rope_log2_theta_over_half;  // log2(theta) * 2 / head_dim
  int router_softmax, norm_topk, experts_per_token;
  int window_keys;
  // The step.
  uint32_t step;
  int row_limit;                // Rows [0, row_limit) may be active; row_limit <= 8 NT.
  int in_flight_chunks;         // Of weights, per worker at most.
  uint32_t delay_seed;          // Not 0: random delays before tasks (tests).
  uint32_t drop_signal_worker;  // Tests: this worker's signal of counter drop_signal_counter is
                                // lost, and the packets that go with it. ~0 = none.
  uint32_t drop_signal_counter;
  uint64_t timeout_ns;
  uint32_t vocab_units;
  SmemPlan smem;
  // Tables.
  const Task* tasks;  // [list][worker][task_stride]: those of MMA, attention and epilogue warps,
                      // each with an end.
  const LayerDevice* layers;
  const uint16_t* final_norm;
  const char* head;       // Packed [vocab, hidden]; also read as the embedding when tied.
  const char* embedding;  // Packed like the head.
  // Buffers.
  RowState* rows;
  char* x;  // Fragment buffer of K = hidden, for more than 8 rows; three copies.
  uint64_t x_copy_bytes;
  char* x_packets;  // Packets in the same order, up to 8 rows; three copies.
  uint64_t x_packets_copy_bytes;
  uint64_t* router_logits;  // Packets of float32, [rows][expert_limit]; three copies
  uint64_t router_copy;     // packets
  uint64_t* choices;        // Packets of expert << 16 | bf16 score, [rows][kMaxTopK]
  uint64_t* q;              // Packets of two neighbours, [rows][q_width / 2]
  uint64_t* new_kv;         // The same, [rows][2][kv_width / 2]
  float* partial_o;         // [rows][kv_heads][max_splits][group_heads][128]
  float2* partial_ml;       // Maximum and sum, [rows][kv_heads][max_splits][group_heads]
  char* attention;          // Fragment buffer of K = q_width.
  char* attention_row;      // Of packets, of the same order, up to 8 rows: SoleRowPackets.
  char* hidden_act;         // [active expert] fragment buffers of K = expert_width, then one of K =
                            // always_width; rows one after the other with more than 8; three
  uint64_t hidden_slice_bytes;  // copies, hidden_copy_bytes apart.
  uint64_t hidden_always_offset;
  uint64_t hidden_copy_bytes;
  HeadPartial* head_partial;  // [worker][rows]
  uint32_t* rope;             // The workers' tables, rope_pairs * kMaxRows apart: see smem.cuh.
  int rope_pairs;             // Most owned QKV rows of a worker / 2.
  uint32_t* counters;         // kCounterStride apart
  uint32_t* abort_flag;
  // KV.
  char* kv_base;
  uint64_t kv_group_offset[2];
  uint64_t kv_page_bytes[2];
  uint64_t kv_layer_bytes;
  uint64_t kv_tile_bytes;
  const uint32_t* full_table;    // [rows][full_stride]
  const uint32_t* window_table;  // [rows][window_stride]
  int full_stride, window_stride;
  // Host-visible.
  RowResultSlot* results;  // [result ring][kMaxRows], this step's entry
  ErrorSlot* error;
  WorkerStats* stats;  // [worker]
  TraceEvent* trace;   // [worker][trace_capacity] or null
  int trace_capacity;
  float* logits_out;   // Tests: [rows][vocab] or null.
  int forced_experts;  // Bench: > 0 makes routing choose uniformly from this many experts, by hash.
};

}  // namespace baton::cuda
