// The part of CudaDecodeRunner that runs once: memory, tables and the kernel's parameters.
#include "kernels/cuda/decode/cuda_decode_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/decode/decode_geometry.h"
#include "kernels/cuda/decode/decode_trace.h"
#include "kernels/cuda/decode/megakernel.cuh"
#include "kernels/cuda/decode/smem.cuh"
#include "kernels/task_graph/chunk_steps.h"
#include "kernels/task_graph/graph_shape.h"
#include "kernels/task_graph/ring_rules.h"

namespace baton::cuda {

template <typename T>
absl::Status CudaDecodeRunner::DeviceArray(T** pointer, uint64_t count) {
  void* memory = nullptr;
  BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, std::max<uint64_t>(count, 1) * sizeof(T)));
  device_memory_.push_back(memory);
  BATON_RETURN_IF_CUDA_ERROR(cudaMemset(memory, 0, std::max<uint64_t>(count, 1) * sizeof(T)));
  *pointer = static_cast<T*>(memory);
  return absl::OkStatus();
}

template <typename T>
absl::Status CudaDecodeRunner::PacketArray(T** pointer, uint64_t count) {
  uint64_t* memory = nullptr;
  BATON_RETURN_IF_ERROR(DeviceArray(&memory, count));
  packets_.push_back({memory, count * sizeof(uint64_t)});
  *pointer = reinterpret_cast<T*>(memory);
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::Allocate(const PackedWeights& weights, const TaskGraph& graph) {
  max_rows_ = options_.max_rows;
  in_use_.assign(max_rows_, false);
  row_ids_.assign(max_rows_, 0);
  positions_.assign(max_rows_, 0);
  const int context =
      options_.max_context_tokens > 0 ? options_.max_context_tokens : config_.max_positions;
  max_pages_ = static_cast<int>(FullPagesFor(context));
  BATON_RETURN_IF_ERROR(CheckDecodePages(max_pages_));
  max_ring_ = static_cast<int>(std::max<uint32_t>(1, std::min<uint32_t>(max_pages_, 8192)));
  limits_ = {.max_rows = max_rows_,
             .vocab = config_.vocab,
             .max_pages = max_pages_,
             .max_ring = max_ring_,
             .validate_pages = tuning_.validate_pages,
             .layout = options_.layout};
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  for (int i = 0; i < kRing; ++i) {
    BATON_RETURN_IF_CUDA_ERROR(cudaEventCreate(&begin_[i]));
    BATON_RETURN_IF_CUDA_ERROR(cudaEventCreate(&end_[i]));
  }
  BATON_RETURN_IF_CUDA_ERROR(cudaMallocHost(&results_, kRing * kMaxRows * sizeof(RowResultSlot)));
  BATON_RETURN_IF_CUDA_ERROR(cudaMallocHost(&error_, sizeof(ErrorSlot)));
  BATON_RETURN_IF_CUDA_ERROR(cudaMallocHost(&updates_, kRing * 2 * kMaxRows * sizeof(RowUpdate)));
  BATON_RETURN_IF_CUDA_ERROR(cudaMallocHost(
      &page_staging_, uint64_t{kRing} * kMaxRows * (max_pages_ + max_ring_) * sizeof(uint32_t)));
  BATON_RETURN_IF_CUDA_ERROR(cudaMallocHost(&stats_, graph.worker_count() * sizeof(WorkerStats)));
  std::memset(results_, 0, kRing * kMaxRows * sizeof(RowResultSlot));
  std::memset(error_, 0, sizeof(ErrorSlot));
  FillParams(weights, graph);
  BATON_RETURN_IF_ERROR(PlanSharedMemory(graph));
  BATON_RETURN_IF_ERROR(CheckOwnRings(graph));
  BATON_RETURN_IF_ERROR(AllocateBuffers(graph));
  BATON_RETURN_IF_ERROR(UploadLayers(weights, graph));
  BATON_RETURN_IF_ERROR(UploadTasks(graph));
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());  // The memory is clear.
  return ClearPackets();
}

// Shared memory for each row-tile count, and residency.
absl::Status CudaDecodeRunner::PlanSharedMemory(const TaskGraph& graph) {
  int device = 0, limit = 0, resident = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  BATON_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  SmemDemand demand{.row_tiles = 1,
                    .hidden = config_.hidden,
                    .expert_limit = params_.expert_limit,
                    .experts_per_token = params_.experts_per_token,
                    .q_width = params_.q_width,
                    .expert_width = config_.expert_width,
                    .slot_bytes = tuning_.slot_bytes,
                    .page_slots = tuning_.page_slots,
                    .page_bytes = static_cast<int>(params_.kv_tile_bytes)};
  for (const std::vector<Task>& list : graph.lists()) {
    for (const Task& task : list) {
      const int units = static_cast<int>(task.end - task.begin);
      if (task.op == OpKind::kQkvRope) params_.rope_pairs = std::max(params_.rope_pairs, units * 4);
      if (task.op == OpKind::kDown)
        demand.keep_tiles = std::max(demand.keep_tiles, (units + 1) / 2);
    }
  }
  for (int rows = 1; rows <= (max_rows_ + 7) / 8 * 8; rows += rows == 1 ? 7 : 8) {
    demand.row_tiles = (rows + 7) / 8;
    demand.slot_bytes = SlotBytesFor(rows, tuning_.slot_bytes);
    demand.page_slots = PageSlotsFor(rows, tuning_.page_slots);
    SmemPlan& plan = plans_[PlanOf(rows)];
    if (!PlanSmem(demand, static_cast<uint32_t>(limit), plan)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the CUDA decode kernel cannot run ", rows, " rows of this geometry: wanted ", plan.total,
          " bytes of shared memory a block, found ", limit, "; lower max_rows"));
    }
  }
  BATON_RETURN_IF_CUDA_ERROR(PrepareDecodeKernels(static_cast<uint32_t>(limit), &resident));
  if (resident < graph.worker_count()) {
    return absl::FailedPreconditionError(
        absl::StrCat("decode kernel: wanted ", graph.worker_count(),
                     " resident blocks, found room for ", resident));
  }
  return absl::OkStatus();
}

// That the rings hold what the graph's tasks stream, in the order of their use, as shared memory
// was planned for this device and geometry. A chunk's size depends neither on rows nor on experts.
absl::Status CudaDecodeRunner::CheckOwnRings(const TaskGraph& graph) const {
  const StepLoad load{.contexts = {kPageTokens * params_.max_splits}, .active_experts = 3};
  for (const SmemPlan& plan : plans_) {
    if (plan.slot_count == 0) continue;  // Of more rows than there may be.
    const RingShape ring{.weight_slots = plan.slot_count,
                         .weight_slot_bytes = plan.slot_bytes,
                         .in_flight_chunks = InFlightChunks(plan),
                         .kv_slots = plan.page_slot_count,
                         .kv_slot_bytes = static_cast<int>(params_.kv_tile_bytes)};
    BATON_RETURN_IF_ERROR(CheckEveryRing(config_, graph, load, ring));
  }
  return absl::OkStatus();
}

int CudaDecodeRunner::InFlightChunks(const SmemPlan& plan) const {
  return std::clamp(tuning_.in_flight_bytes / plan.slot_bytes, 1, plan.slot_count);
}

void CudaDecodeRunner::FillParams(const PackedWeights& weights, const TaskGraph& graph) {
  DecodeParams& p = params_;
  p.hidden = config_.hidden;
  p.query_heads = config_.query_heads;
  p.kv_heads = config_.kv_heads;
  p.group_heads = config_.query_heads / config_.kv_heads;
  p.vocab = config_.vocab;
  p.vocab_units = graph.shape().vocab_units;
  p.layer_count = config_.layer_count;
  p.q_width = config_.query_heads * config_.head_dim;
  p.kv_width = config_.kv_heads * config_.head_dim;
  p.worker_count = graph.worker_count();
  p.max_splits = p.worker_count / p.kv_heads;
  p.expert_limit = std::max(8, (config_.expert_count + 7) / 8 * 8);
  p.norm_is_layer_norm = config_.norm == NormKind::kLayerNorm;
  p.norm_epsilon = config_.norm_epsilon;
  p.logit_scale = config_.logit_scale;
  p.attention_scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
  p.rope_log2_theta_over_half =
      static_cast<float>(std::log2(config_.rope_theta) * 2 / config_.head_dim);
  p.router_softmax = config_.router == RouterKind::kSoftmax;
  p.norm_topk = config_.norm_topk;
  p.experts_per_token = config_.experts_per_token;
  p.window_keys = config_.window_keys;
  p.final_norm = weights.final_norm();
  p.head = weights.head();
  p.embedding = weights.embedding();
  const KvLayout& layout = options_.layout;
  p.kv_base = static_cast<char*>(options_.kv_base);
  for (int g = 0; g < kKvGroupCount; ++g) {
    p.kv_group_offset[g] = layout.groups[g].offset_bytes;
    p.kv_page_bytes[g] = layout.groups[g].page_bytes;
  }
  p.kv_layer_bytes = layout.layer_bytes();
  p.kv_tile_bytes = layout.tile_bytes();
  p.full_stride = max_pages_;
  p.window_stride = max_ring_;
  p.error = error_;
}

absl::Status CudaDecodeRunner::AllocateBuffers(const TaskGraph& graph) {
  DecodeParams& p = params_;
  const uint64_t columns = 8 * ((max_rows_ + 7) / 8);
  int expert_width = 16, always_width = 16;
  for (const LayerConfig& layer : config_.layers) {
    (layer.dense ? always_width : expert_width) =
        std::max(layer.dense ? always_width : expert_width, layer.ffn_width);
  }
  always_width = std::max(always_width, config_.shared_width);
  p.x_copy_bytes = columns * p.hidden * 2;
  p.x_packets_copy_bytes = 8 * p.hidden / 2 * sizeof(uint64_t);
  p.router_copy = columns * p.expert_limit;
  p.hidden_slice_bytes = columns * expert_width * 2;
  p.hidden_always_offset = p.hidden_slice_bytes * std::max(1, config_.expert_count);
  p.hidden_copy_bytes = p.hidden_always_offset + columns * always_width * 2;
  BATON_RETURN_IF_ERROR(DeviceArray(&p.x, 3 * p.x_copy_bytes));
  BATON_RETURN_IF_ERROR(PacketArray(&p.x_packets, 3 * p.x_packets_copy_bytes / sizeof(uint64_t)));
  BATON_RETURN_IF_ERROR(PacketArray(&p.router_logits, 3 * p.router_copy));
  BATON_RETURN_IF_ERROR(PacketArray(&p.choices, columns * kMaxTopK));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.hidden_act, 3 * p.hidden_copy_bytes));
  BATON_RETURN_IF_ERROR(PacketArray(&p.q, columns * p.q_width / 2));
  BATON_RETURN_IF_ERROR(PacketArray(&p.new_kv, columns * p.kv_width));
  const uint64_t partials = columns * p.kv_heads * p.max_splits * p.group_heads;
  BATON_RETURN_IF_ERROR(DeviceArray(&p.partial_o, partials * kHeadDim));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.partial_ml, partials));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.attention, columns * p.q_width * 2));
  BATON_RETURN_IF_ERROR(PacketArray(&p.attention_row, 8 * p.q_width / 2));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.head_partial, uint64_t(p.worker_count) * kMaxRows));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.rope, uint64_t(p.worker_count) * p.rope_pairs * kMaxRows));
  graph_counters_ = graph.counter_count();
  BATON_RETURN_IF_ERROR(DeviceArray(&p.counters, graph_counters_ * kCounterStride));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.abort_flag, 32));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.rows, 1));
  uint32_t* table = nullptr;
  BATON_RETURN_IF_ERROR(DeviceArray(&table, uint64_t(kMaxRows) * max_pages_));
  p.full_table = table;
  BATON_RETURN_IF_ERROR(DeviceArray(&table, uint64_t(kMaxRows) * max_ring_));
  p.window_table = table;
  BATON_RETURN_IF_ERROR(DeviceArray(&p.stats, p.worker_count));
  if (tuning_.keep_logits) BATON_RETURN_IF_ERROR(DeviceArray(&p.logits_out, columns * p.vocab));
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::UploadLayers(const PackedWeights& weights, const TaskGraph& graph) {
  std::vector<LayerDevice> layers = weights.layers();
  producers_ = graph.ProducerCounts();
  for (int l = 0; l < config_.layer_count; ++l) {
    const CounterKind kind = layers[l].expert_count > 0 ? CounterKind::kRouter : CounterKind::kX;
    layers[l].routing_counter = CounterId(kind, l, config_.layer_count);
    layers[l].routing_producers = producers_[layers[l].routing_counter];
    for (int row_tiles = 1; row_tiles <= 4; ++row_tiles) {
      for (int full = 0; full < 2; ++full) {
        layers[l].always_chunk[row_tiles - 1][full] = static_cast<uint8_t>(
            ChunkSteps(SlotBytesFor(8 * row_tiles, tuning_.slot_bytes), full ? 512 : 256,
                       std::max(1, layers[l].always_width / 16), kMaxSharedSteps));
      }
    }
    layers[l].group = options_.layout.layer_group[l];
    layers[l].layer_in_group = options_.layout.layer_in_group[l];
  }
  LayerDevice* device_layers = nullptr;
  BATON_RETURN_IF_ERROR(DeviceArray(&device_layers, layers.size()));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemcpy(
      device_layers, layers.data(), layers.size() * sizeof(LayerDevice), cudaMemcpyHostToDevice));
  params_.layers = device_layers;
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::UploadTasks(const TaskGraph& graph) {
  DecodeParams& p = params_;
  size_t stride = 0;
  for (const std::vector<Task>& list : graph.lists()) stride = std::max(stride, list.size() + 1);
  const int workers = graph.worker_count();
  p.task_stride = static_cast<int>(stride);
  Task end;
  end.op = kEndOfList;
  std::vector<Task> flat(stride * workers * kTaskLists, end);
  std::vector<int> counts(workers * kTaskLists);
  for (int w = 0; w < workers; ++w) {
    for (uint32_t i = 0; i < graph.lists()[w].size(); ++i) {
      Task task = graph.lists()[w][i];
      task.index = i;
      for (int list = 0; list < kTaskLists; ++list) {
        const int at = list * workers + w;
        if (!InList(task.op, list)) continue;
        task.role_index = counts[at]++;
        flat[at * stride + task.role_index] = task;
      }
    }
  }
  Task* tasks = nullptr;
  BATON_RETURN_IF_ERROR(DeviceArray(&tasks, flat.size()));
  BATON_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(tasks, flat.data(), flat.size() * sizeof(Task), cudaMemcpyHostToDevice));
  p.tasks = tasks;
  BATON_RETURN_IF_ERROR(CheckTraceBuilt(tuning_.trace));
  if (tuning_.trace) {
    p.trace_capacity = static_cast<int>(stride) * kTracePhases;
    BATON_RETURN_IF_ERROR(DeviceArray(&p.trace, uint64_t(p.trace_capacity) * p.worker_count));
  }
  return absl::OkStatus();
}

}  // namespace baton::cuda
