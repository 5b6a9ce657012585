#include "kernels/cuda/decode/cuda_decode_runner.h"

#include <atomic>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/decode/megakernel.cuh"
#include "kernels/task_graph/graph_shape.h"

namespace baton::cuda {

constexpr int kRing = 4;  // Entries of every per-step host buffer; more than max_in_flight.

namespace {

__global__ void ApplyUpdates(RowState* rows, const RowUpdate* updates, int count) {
  for (int i = 0; i < count; ++i) {  // In order: a leave may be followed by a join of its slot.
    const RowUpdate& u = updates[i];
    const int s = u.slot;
    if (threadIdx.x == 0) {
      if (!u.join) {
        if (rows->row_id[s] == u.row_id) rows->active[s] = 0;
        continue;
      }
      rows->token[s] = u.token;
      rows->position[s] = u.position;
      rows->remaining[s] = u.remaining;
      rows->stop_count[s] = u.stop_count;
      rows->ring_size[s] = u.ring_size;
      rows->temperature[s] = u.temperature;
      rows->seed[s] = u.seed;
      rows->row_id[s] = u.row_id;
      for (int j = 0; j < u.stop_count; ++j) rows->stop_ids[s][j] = u.stop_ids[j];
      rows->active[s] = 1;
    }
  }
}

absl::Status CheckGeometry(const ModelConfig& c, int workers) {
  const auto refuse = [](const char* what, const char* wanted, int64_t found) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CUDA decode kernel cannot run this geometry: ", what, ": wanted ", wanted,
                     ", found ", found));
  };
  if (c.head_dim != kHeadDim) return refuse("head_dim", "128", c.head_dim);
  if (c.query_heads / c.kv_heads > kMaxGroup)
    return refuse("query heads a KV head", "at most 8", c.query_heads / c.kv_heads);
  if (c.hidden % 16 != 0) return refuse("hidden_size", "a multiple of 16", c.hidden);
  if (c.expert_count > 256) return refuse("num_experts", "at most 256", c.expert_count);
  if (c.experts_per_token > 16)
    return refuse("num_experts_per_tok", "at most 16", c.experts_per_token);
  if (c.kv_heads > workers)
    return refuse("num_key_value_heads", "at most one a multiprocessor", c.kv_heads);
  for (const LayerConfig& layer : c.layers) {
    if (layer.ffn_width % 16 != 0)
      return refuse("feed-forward width", "a multiple of 16", layer.ffn_width);
  }
  if (c.shared_width % 16 != 0)
    return refuse("shared expert width", "a multiple of 16", c.shared_width);
  return absl::OkStatus();
}

}  // namespace

CudaDecodeRunner::CudaDecodeRunner(const ModelConfig& config, const DecodeRunnerOptions& options,
                                   const DecodeTuning& tuning)
    : config_(config), options_(options), tuning_(tuning) {}

absl::StatusOr<std::unique_ptr<CudaDecodeRunner>> CudaDecodeRunner::Create(
    const ModelConfig& config, const PackedWeights& weights, const TaskGraph& graph,
    const DecodeRunnerOptions& options, const DecodeTuning& tuning) {
  if (options.max_rows < 1 || options.max_rows > kMaxRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_rows: wanted 1 to ", kMaxRows, ", found ", options.max_rows));
  }
  BATON_RETURN_IF_ERROR(CheckGeometry(config, graph.worker_count()));
  if (!options.layout.swizzled || options.layout.element_bytes != 2) {
    return absl::InvalidArgumentError(
        "KV layout: wanted swizzled bf16 tiles (Backend::MakeKvLayout)");
  }
  std::unique_ptr<CudaDecodeRunner> runner(new CudaDecodeRunner(config, options, tuning));
  BATON_RETURN_IF_ERROR(runner->Allocate(weights, graph));
  return runner;
}

CudaDecodeRunner::~CudaDecodeRunner() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (void* memory : device_memory_) cudaFree(memory);
  for (int i = 0; i < kRing; ++i) {
    if (begin_[i] != nullptr) cudaEventDestroy(begin_[i]);
    if (end_[i] != nullptr) cudaEventDestroy(end_[i]);
  }
  if (results_ != nullptr) cudaFreeHost(results_);
  if (error_ != nullptr) cudaFreeHost(error_);
  if (updates_ != nullptr) cudaFreeHost(updates_);
  if (page_staging_ != nullptr) cudaFreeHost(page_staging_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

template <typename T>
absl::Status CudaDecodeRunner::DeviceArray(T** pointer, uint64_t count) {
  void* memory = nullptr;
  BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, std::max<uint64_t>(count, 1) * sizeof(T)));
  device_memory_.push_back(memory);
  BATON_RETURN_IF_CUDA_ERROR(cudaMemset(memory, 0, std::max<uint64_t>(count, 1) * sizeof(T)));
  *pointer = static_cast<T*>(memory);
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::Allocate(const PackedWeights& weights, const TaskGraph& graph) {
  max_rows_ = options_.max_rows;
  in_use_.assign(max_rows_, false);
  row_ids_.assign(max_rows_, 0);
  const int context =
      options_.max_context_tokens > 0 ? options_.max_context_tokens : config_.max_positions;
  max_pages_ = static_cast<int>(FullPagesFor(context));
  max_ring_ = static_cast<int>(std::max<uint32_t>(1, std::min<uint32_t>(max_pages_, 8192)));
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
  std::memset(results_, 0, kRing * kMaxRows * sizeof(RowResultSlot));
  std::memset(error_, 0, sizeof(ErrorSlot));
  FillParams(weights, graph);
  // Shared memory for each row-tile count, and residency.
  int device = 0, limit = 0, resident = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  BATON_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  size_t longest = 0;
  for (const std::vector<Task>& list : graph.lists()) longest = std::max(longest, list.size());
  SmemDemand demand{.row_tiles = 1,
                    .hidden = config_.hidden,
                    .expert_limit = params_.expert_limit,
                    .task_count = static_cast<int>(longest),
                    .q_width = params_.q_width,
                    .expert_width = config_.expert_width,
                    .slot_bytes = tuning_.slot_bytes};
  for (const std::vector<Task>& list : graph.lists()) {
    for (const Task& task : list) {
      const int units = static_cast<int>(task.end - task.begin);
      if (task.op == OpKind::kQkvRope) demand.rope_pairs = std::max(demand.rope_pairs, units * 4);
      if (task.op == OpKind::kDown)
        demand.keep_tiles = std::max(demand.keep_tiles, (units + 1) / 2);
    }
  }
  for (int row_tiles = 1; row_tiles <= (max_rows_ + 7) / 8; ++row_tiles) {
    demand.row_tiles = row_tiles;
    demand.slot_bytes = SlotBytes(row_tiles);
    if (!PlanSmem(demand, static_cast<uint32_t>(limit), plans_[row_tiles - 1])) {
      return absl::FailedPreconditionError(
          absl::StrCat("the CUDA decode kernel cannot run ", 8 * row_tiles,
                       " rows of this geometry: wanted ", plans_[row_tiles - 1].total,
                       " bytes of shared memory a block, found ", limit, "; lower max_rows"));
    }
  }
  BATON_RETURN_IF_CUDA_ERROR(PrepareDecodeKernels(static_cast<uint32_t>(limit), &resident));
  if (resident < graph.worker_count()) {
    return absl::FailedPreconditionError(
        absl::StrCat("decode kernel: wanted ", graph.worker_count(),
                     " resident blocks, found room for ", resident));
  }
  BATON_RETURN_IF_ERROR(AllocateBuffers(graph));
  return UploadTables(weights, graph);
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

int CudaDecodeRunner::SlotBytes(int row_tiles) const {
  // More rows leave less room for the ring: smaller slots keep enough of them.
  return row_tiles <= 2 ? tuning_.slot_bytes : std::min(tuning_.slot_bytes, 16384);
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
  p.router_copy = columns * p.expert_limit;
  p.hidden_slice_bytes = columns * expert_width * 2;
  p.hidden_always_offset = p.hidden_slice_bytes * std::max(1, config_.expert_count);
  p.hidden_copy_bytes = p.hidden_always_offset + columns * always_width * 2;
  BATON_RETURN_IF_ERROR(DeviceArray(&p.x, 3 * p.x_copy_bytes));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.router_logits, 3 * p.router_copy));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.hidden_act, 3 * p.hidden_copy_bytes));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.q, columns * p.q_width));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.new_kv, columns * 2 * p.kv_width));
  const uint64_t partials = columns * p.kv_heads * p.max_splits * p.group_heads;
  BATON_RETURN_IF_ERROR(DeviceArray(&p.partial_o, partials * kHeadDim));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.partial_ml, partials * 2));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.attention, columns * p.q_width * 2));
  BATON_RETURN_IF_ERROR(DeviceArray(&p.head_partial, uint64_t(p.worker_count) * kMaxRows));
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

absl::Status CudaDecodeRunner::UploadTables(const PackedWeights& weights, const TaskGraph& graph) {
  DecodeParams& p = params_;
  std::vector<LayerDevice> layers = weights.layers();
  const std::vector<uint16_t> producers = graph.ProducerCounts();
  for (int l = 0; l < config_.layer_count; ++l) {
    const CounterKind kind = layers[l].expert_count > 0 ? CounterKind::kRouter : CounterKind::kX;
    layers[l].routing_counter = CounterId(kind, l, config_.layer_count);
    layers[l].routing_producers = producers[layers[l].routing_counter];
    for (int row_tiles = 1; row_tiles <= 4; ++row_tiles) {
      for (int full = 0; full < 2; ++full) {
        layers[l].always_chunk[row_tiles - 1][full] = static_cast<uint8_t>(ChunkSteps(
            SlotBytes(row_tiles), full ? 512 : 256, std::max(1, layers[l].always_width / 16)));
      }
    }
    layers[l].group = options_.layout.layer_group[l];
    layers[l].layer_in_group = options_.layout.layer_in_group[l];
  }
  LayerDevice* device_layers = nullptr;
  BATON_RETURN_IF_ERROR(DeviceArray(&device_layers, layers.size()));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemcpy(
      device_layers, layers.data(), layers.size() * sizeof(LayerDevice), cudaMemcpyHostToDevice));
  p.layers = device_layers;
  size_t stride = 0;
  std::vector<int> counts;
  for (const std::vector<Task>& list : graph.lists()) {
    stride = std::max(stride, list.size());
    counts.push_back(static_cast<int>(list.size()));
  }
  p.task_stride = static_cast<int>(stride);
  std::vector<Task> flat(stride * graph.worker_count());
  for (int w = 0; w < graph.worker_count(); ++w) {
    std::copy(graph.lists()[w].begin(), graph.lists()[w].end(), flat.begin() + w * stride);
  }
  Task* tasks = nullptr;
  int* task_counts = nullptr;
  BATON_RETURN_IF_ERROR(DeviceArray(&tasks, flat.size()));
  BATON_RETURN_IF_ERROR(DeviceArray(&task_counts, counts.size()));
  BATON_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(tasks, flat.data(), flat.size() * sizeof(Task), cudaMemcpyHostToDevice));
  BATON_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(task_counts, counts.data(), counts.size() * sizeof(int), cudaMemcpyHostToDevice));
  p.tasks = tasks;
  p.task_counts = task_counts;
  if (tuning_.trace) {
    p.trace_capacity = static_cast<int>(stride) * 3;
    BATON_RETURN_IF_ERROR(DeviceArray(&p.trace, uint64_t(p.trace_capacity) * p.worker_count));
  }
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::CheckJoin(const RowJoin& join,
                                         const std::vector<bool>& leaving) const {
  const auto bad = [&](const std::string& text) {
    return absl::InvalidArgumentError(absl::StrCat("join of row ", join.row_id, ": ", text));
  };
  if (join.slot < 0 || join.slot >= max_rows_)
    return bad(absl::StrCat("slot: wanted 0 to ", max_rows_ - 1, ", found ", join.slot));
  if (in_use_[join.slot] && !leaving[join.slot])
    return bad(absl::StrCat("slot ", join.slot, " is in use"));
  if (join.token < 0 || join.token >= config_.vocab)
    return bad(absl::StrCat("token: wanted 0 to ", config_.vocab - 1, ", found ", join.token));
  if (join.position < 0 || join.max_new_tokens < 1)
    return bad("position or max_new_tokens out of range");
  if (join.stop_ids.size() > kMaxStops)
    return bad(
        absl::StrCat("stop ids: wanted at most ", kMaxStops, ", found ", join.stop_ids.size()));
  const uint64_t tokens = uint64_t(join.position) + join.max_new_tokens;
  const uint32_t full_wanted = options_.layout.groups[0].layer_count > 0 ? FullPagesFor(tokens) : 0;
  if (full_wanted > uint32_t(max_pages_))
    return bad(absl::StrCat("sequence: wanted at most ", max_pages_ * kPageTokens,
                            " tokens, found ", tokens));
  if (join.pages.full.size() < full_wanted)
    return bad(
        absl::StrCat("full pages: wanted ", full_wanted, ", found ", join.pages.full.size()));
  if (options_.layout.groups[1].layer_count > 0) {
    const uint32_t ring = WindowPagesFor(tokens, options_.layout.window_keys, 1);
    if (join.pages.window.size() < ring)
      return bad(absl::StrCat("window pages: wanted ", ring, ", found ", join.pages.window.size()));
    if (join.pages.window.size() > size_t(max_ring_))
      return bad(absl::StrCat("window pages: wanted at most ", max_ring_, ", found ",
                              join.pages.window.size()));
  }
  if (tuning_.validate_pages) {
    for (PageId page : join.pages.full) {
      if (page >= options_.layout.groups[0].page_count)
        return bad(absl::StrCat("full page ", page, " of an arena of ",
                                options_.layout.groups[0].page_count));
    }
    for (PageId page : join.pages.window) {
      if (page >= options_.layout.groups[1].page_count)
        return bad(absl::StrCat("window page ", page, " of an arena of ",
                                options_.layout.groups[1].page_count));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::ApplyJoin(const RowJoin& join, int update) {
  const int entry = static_cast<int>((submitted_ + 1) % kRing);
  RowUpdate& u = updates_[entry * 2 * kMaxRows + update];
  u = {};
  u.slot = join.slot;
  u.join = 1;
  u.token = join.token;
  u.position = join.position;
  u.remaining = join.max_new_tokens;
  u.ring_size = static_cast<int>(join.pages.window.size());
  u.temperature = join.sampling.temperature;
  u.seed = join.sampling.seed;
  u.row_id = join.row_id;
  u.stop_count = static_cast<int>(join.stop_ids.size());
  std::copy(join.stop_ids.begin(), join.stop_ids.end(), u.stop_ids);
  uint32_t* staging =
      page_staging_ + (uint64_t(entry) * kMaxRows + join.slot) * (max_pages_ + max_ring_);
  const size_t full = std::min<size_t>(join.pages.full.size(), max_pages_);
  std::copy_n(join.pages.full.begin(), full, staging);
  std::copy(join.pages.window.begin(), join.pages.window.end(), staging + max_pages_);
  BATON_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(const_cast<uint32_t*>(params_.full_table) + uint64_t(join.slot) * max_pages_,
                      staging, full * sizeof(uint32_t), cudaMemcpyHostToDevice, stream_));
  BATON_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(const_cast<uint32_t*>(params_.window_table) + uint64_t(join.slot) * max_ring_,
                      staging + max_pages_, join.pages.window.size() * sizeof(uint32_t),
                      cudaMemcpyHostToDevice, stream_));
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::Submit(const StepInput& input) {
  BATON_CHECK(submitted_ - awaited_ < uint64_t(max_in_flight()));
  std::vector<bool> leaving(max_rows_, false);
  for (int slot : input.leaves) {
    if (slot < 0 || slot >= max_rows_) {
      return absl::InvalidArgumentError(
          absl::StrCat("leave: slot: wanted 0 to ", max_rows_ - 1, ", found ", slot));
    }
    leaving[slot] = true;
  }
  std::vector<bool> joining(max_rows_, false);
  for (const RowJoin& join : input.joins) {
    BATON_RETURN_IF_ERROR(CheckJoin(join, leaving));
    if (joining[join.slot])
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", join.slot, " joined twice in one step"));
    joining[join.slot] = true;
  }
  const int entry = static_cast<int>((submitted_ + 1) % kRing);
  int update_count = 0;
  for (int slot : input.leaves) {
    RowUpdate& u = updates_[entry * 2 * kMaxRows + update_count++];
    u = {};
    u.slot = slot;
    u.row_id = row_ids_[slot];
    in_use_[slot] = false;
  }
  for (const RowJoin& join : input.joins) {
    BATON_RETURN_IF_ERROR(ApplyJoin(join, update_count++));
    in_use_[join.slot] = true;
    row_ids_[join.slot] = join.row_id;
  }
  if (update_count > 0) {
    ApplyUpdates<<<1, 32, 0, stream_>>>(params_.rows, updates_ + entry * 2 * kMaxRows,
                                        update_count);
    BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  }
  int limit = 0;
  for (int slot = 0; slot < max_rows_; ++slot) {
    if (in_use_[slot]) limit = slot + 1;
  }
  DecodeParams& p = params_;
  p.row_limit = std::max(limit, 1);
  p.row_tiles = (p.row_limit + 7) / 8;
  p.smem = plans_[p.row_tiles - 1];
  p.step = static_cast<uint32_t>(submitted_ + 1 - step_base_);
  p.results = results_ + entry * kMaxRows;
  p.in_flight_bytes = tuning_.in_flight_bytes;
  p.reader_fence = tuning_.reader_fence;
  p.forced_experts = tuning_.forced_experts;
  p.delay_seed = tuning_.delay_seed;
  p.drop_signal_worker = tuning_.drop_signal_worker;
  p.drop_signal_counter = tuning_.drop_signal_counter;
  p.timeout_ns = tuning_.timeout_ns;
  BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(begin_[entry], stream_));
  BATON_RETURN_IF_CUDA_ERROR(LaunchDecodeStep(p, stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(end_[entry], stream_));
  ++submitted_;
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::TakeError(uint64_t step) {
  const volatile uint64_t* raised = &error_->raised;
  if (*raised == 0) return absl::OkStatus();
  const ErrorSlot e = *error_;
  const char* kinds[] = {"?", "counter", "ring", "routing", "loader"};
  return absl::InternalError(absl::StrCat(
      "decode step ", step, ": worker ", e.worker, " waited in vain for ",
      kinds[e.kind < 5 ? e.kind : 0], " ", e.counter, " in task ", static_cast<int>(e.task), " (",
      e.op < kOpCount ? OpName(static_cast<OpKind>(e.op)) : "?", ", layer ", e.layer, "): wanted ",
      e.wanted, ", found ", e.seen));
}

absl::StatusOr<StepOutput> CudaDecodeRunner::Await() {
  BATON_CHECK(awaited_ < submitted_);
  const uint64_t step = awaited_ + 1;
  const int entry = static_cast<int>(step % kRing);
  const uint64_t wanted = (step - step_base_) * 4;
  StepOutput output;
  output.step = step;
  const RowResultSlot* results = results_ + entry * kMaxRows;
  uint64_t spins = 0;
  for (int slot = 0; slot < kMaxRows; ++slot) {
    const volatile uint64_t* tag = &results[slot].tag;
    while ((*tag & ~uint64_t{3}) != wanted) {
      if (++spins % 1024 == 0) {
        const cudaError_t state = cudaStreamQuery(stream_);
        if (state != cudaSuccess && state != cudaErrorNotReady)
          return CudaStatus(state, "decode step");
        if (state == cudaSuccess && (*tag & ~uint64_t{3}) != wanted) {
          return absl::InternalError(
              absl::StrCat("decode step ", step, " ended without a result for row ", slot));
        }
      }
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  ++awaited_;
  BATON_RETURN_IF_ERROR(TakeError(step));
  for (int slot = 0; slot < max_rows_; ++slot) {
    const RowResultSlot& r = results[slot];
    const uint64_t state = r.tag & 3;
    if (state == 0) continue;
    const FinishReason finish = state == 2   ? FinishReason::kStop
                                : state == 3 ? FinishReason::kLength
                                             : FinishReason::kNone;
    if (finish != FinishReason::kNone && row_ids_[slot] == r.row_id) in_use_[slot] = false;
    output.distinct_experts = static_cast<double>(r.expert_sum);
    output.rows.push_back({slot, r.row_id, {r.token, r.logprob}, finish});
  }
  int sparse = 0;
  for (const LayerConfig& layer : config_.layers) sparse += !layer.dense;
  if (sparse > 0) output.distinct_experts /= sparse;
  float ms = 0;
  if (cudaEventElapsedTime(&ms, begin_[entry], end_[entry]) == cudaSuccess) {
    output.device_seconds = ms * 1e-3;
  } else {
    cudaGetLastError();  // The end event may lag the results by a moment: no time for this step.
  }
  return output;
}

absl::Status CudaDecodeRunner::ClearDeviceState() {
  BATON_RETURN_IF_CUDA_ERROR(
      cudaMemset(params_.counters, 0, graph_counters_ * kCounterStride * sizeof(uint32_t)));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemset(params_.abort_flag, 0, sizeof(uint32_t)));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemset(params_.rows, 0, sizeof(RowState)));
  std::memset(results_, 0, kRing * kMaxRows * sizeof(RowResultSlot));
  std::memset(error_, 0, sizeof(ErrorSlot));
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::Reset() {
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_ERROR(ClearDeviceState());
  in_use_.assign(max_rows_, false);
  awaited_ = submitted_;
  step_base_ = submitted_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<WorkerStats>> CudaDecodeRunner::ReadStats() {
  std::vector<WorkerStats> stats(params_.worker_count);
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemcpy(
      stats.data(), params_.stats, stats.size() * sizeof(WorkerStats), cudaMemcpyDeviceToHost));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemset(params_.stats, 0, stats.size() * sizeof(WorkerStats)));
  return stats;
}

absl::StatusOr<std::vector<float>> CudaDecodeRunner::ReadLogits(int slot) {
  if (params_.logits_out == nullptr)
    return absl::FailedPreconditionError("logits were not kept (DecodeTuning::keep_logits)");
  std::vector<float> logits(config_.vocab);
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemcpy(logits.data(),
                                        params_.logits_out + uint64_t(slot) * config_.vocab,
                                        logits.size() * sizeof(float), cudaMemcpyDeviceToHost));
  return logits;
}

absl::StatusOr<std::string> CudaDecodeRunner::TraceJson() {
  if (params_.trace == nullptr)
    return absl::FailedPreconditionError("no trace (DecodeTuning::trace)");
  std::vector<TraceEvent> events(uint64_t(params_.trace_capacity) * params_.worker_count);
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemcpy(
      events.data(), params_.trace, events.size() * sizeof(TraceEvent), cudaMemcpyDeviceToHost));
  uint64_t first = ~uint64_t{0};
  for (const TraceEvent& e : events) {
    if (e.time_ns != 0) first = std::min(first, e.time_ns);
  }
  std::string json = "{\"traceEvents\":[";
  const char* separator = "";
  for (int w = 0; w < params_.worker_count; ++w) {
    for (int i = 0; i + 2 < params_.trace_capacity; i += 3) {
      const TraceEvent* e = &events[uint64_t(w) * params_.trace_capacity + i];
      if (e[0].time_ns == 0 || e[2].time_ns == 0) continue;
      for (int part = 0; part < 2; ++part) {
        absl::StrAppend(&json, separator, "{\"ph\":\"X\",\"pid\":", w, ",\"tid\":", part,
                        ",\"name\":\"", part == 0 ? "wait " : "",
                        OpName(static_cast<OpKind>(e[0].op)),
                        "\",\"ts\":", (e[part].time_ns - first) * 1e-3,
                        ",\"dur\":", (e[part + 1].time_ns - e[part].time_ns) * 1e-3,
                        ",\"args\":{\"layer\":", e[0].layer, "}}");
        separator = ",\n";
      }
    }
  }
  return json + "]}";
}

}  // namespace baton::cuda
