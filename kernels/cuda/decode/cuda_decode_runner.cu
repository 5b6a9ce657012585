#include "kernels/cuda/decode/cuda_decode_runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/decode/decode_geometry.h"
#include "kernels/cuda/decode/decode_trace.h"
#include "kernels/cuda/decode/device_steps.h"
#include "kernels/cuda/decode/megakernel.cuh"
#include "kernels/cuda/decode/smem.cuh"
#include "kernels/task_graph/graph_shape.h"
#include "kernels/task_graph/ring_schedule.h"

namespace baton::cuda {

namespace {

constexpr uint64_t kSpinsAQuery = 1024;  // Reads of a result between looks at the stream.
// Steps between clearings of the packets: less than half of the steps whose epochs differ.
constexpr uint32_t kStepsAClearing = 1u << 20;
// The grid's own waits all end within a few of its timeouts; a device that has not answered by then
// is lost.
constexpr uint64_t kMostStepNs = 60'000'000'000, kMostStepTimeouts = 100;
constexpr std::chrono::seconds kStatsInterval(1);
static_assert(kStepsAClearing < (uint64_t{1} << 32) / kEpochLayers / 2);

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
  BATON_RETURN_IF_ERROR(CheckDecodeGeometry(config, graph.worker_count()));
  if (!options.layout.swizzled || options.layout.element_bytes != 2) {
    return absl::InvalidArgumentError(
        "KV layout: wanted swizzled bf16 tiles (Backend::MakeKvLayout)");
  }
  std::unique_ptr<CudaDecodeRunner> runner(new CudaDecodeRunner(config, options, tuning));
  BATON_RETURN_IF_ERROR(runner->Allocate(weights, graph));
  return runner;
}

CudaDecodeRunner::~CudaDecodeRunner() {
  if (hung_) return;  // To free its memory would wait for the device.
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (void* memory : device_memory_) cudaFree(memory);
  for (int i = 0; i < kRing; ++i) {
    if (begin_[i] != nullptr) cudaEventDestroy(begin_[i]);
    if (end_[i] != nullptr) cudaEventDestroy(end_[i]);
  }
  if (results_ != nullptr) cudaFreeHost(results_);
  if (error_ != nullptr) cudaFreeHost(error_);
  if (updates_ != nullptr) cudaFreeHost(updates_);
  if (stats_ != nullptr) cudaFreeHost(stats_);
  if (page_staging_ != nullptr) cudaFreeHost(page_staging_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status CudaDecodeRunner::ApplyJoin(const RowJoin& join, int update) {
  const int entry = NextEntry();
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

absl::Status CudaDecodeRunner::CheckJoin(const RowJoin& join) const {
  return CheckRowJoin(join, limits_);
}

absl::Status CudaDecodeRunner::CheckInput(const StepInput& input) const {
  std::vector<bool> leaving(max_rows_, false);
  for (int slot : input.leaves) {
    if (slot < 0 || slot >= max_rows_) {
      return absl::InvalidArgumentError(
          absl::StrCat("leave: slot: wanted 0 to ", max_rows_ - 1, ", found ", slot));
    }
    if (leaving[slot])
      return absl::InvalidArgumentError(absl::StrCat("leave: slot ", slot, " is named twice"));
    leaving[slot] = true;
  }
  std::vector<bool> joining(max_rows_, false);
  for (const RowJoin& join : input.joins) {
    BATON_RETURN_IF_ERROR(CheckJoin(join));
    if (joining[join.slot] || (in_use_[join.slot] && !leaving[join.slot])) {
      return absl::InvalidArgumentError(
          absl::StrCat("join of row ", join.row_id, ": slot ", join.slot, " is in use"));
    }
    joining[join.slot] = true;
  }
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::ApplyInput(const StepInput& input) {
  RowUpdate* const updates = updates_ + NextEntry() * 2 * kMaxRows;
  int update_count = 0;
  for (int slot : input.leaves) {
    RowUpdate& u = updates[update_count++];
    u = {};
    u.slot = slot;
    u.row_id = row_ids_[slot];
    in_use_[slot] = false;
  }
  for (const RowJoin& join : input.joins) {
    BATON_RETURN_IF_ERROR(ApplyJoin(join, update_count++));
    in_use_[join.slot] = true;
    row_ids_[join.slot] = join.row_id;
    positions_[join.slot] = join.position;
  }
  if (update_count == 0) return absl::OkStatus();
  ApplyUpdates<<<1, 32, 0, stream_>>>(params_.rows, updates, update_count);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::Submit(const StepInput& input) {
  BATON_CHECK(submitted_ - awaited_ < uint64_t(max_in_flight()));
  BATON_RETURN_IF_ERROR(CheckInput(input));
  BATON_RETURN_IF_ERROR(ApplyInput(input));
  const int entry = NextEntry();
  int limit = 0;
  for (int slot = 0; slot < max_rows_; ++slot) {
    if (in_use_[slot]) limit = slot + 1;
  }
  DecodeParams& p = params_;
  p.row_limit = std::max(limit, 1);
  p.row_tiles = (p.row_limit + 7) / 8;
  p.smem = plans_[PlanOfStep()];
  p.step = static_cast<uint32_t>(submitted_ + 1 - step_base_);
  p.results = results_ + entry * kMaxRows;
  p.in_flight_chunks = InFlightChunks(p.smem);
  p.forced_experts = tuning_.forced_experts;
  p.delay_seed = tuning_.delay_seed;
  p.drop_signal_worker = tuning_.drop_signal_worker;
  p.drop_signal_counter = tuning_.drop_signal_counter;
  p.timeout_ns = tuning_.timeout_ns;
  if (p.step % kStepsAClearing == 0) BATON_RETURN_IF_ERROR(ClearPackets());
  BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(begin_[entry], stream_));
  BATON_RETURN_IF_CUDA_ERROR(LaunchDecodeStep(p, stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(end_[entry], stream_));
  for (int slot = 0; slot < max_rows_; ++slot) positions_[slot] += in_use_[slot];
  ++submitted_;
  return CopyStats();
}

// One long row reads more of its pages than of the weights: it has the slots of several rows.
static_assert(RingShape::kLongRow == kSharedPages * 33 * kPageTokens, "as the rings are checked");
int CudaDecodeRunner::PlanOfStep() const {
  const bool is_long = positions_[0] >= kSharedPages * params_.max_splits * kPageTokens;
  return params_.row_limit == 1 && is_long ? PlanOf(2) : PlanOf(params_.row_limit);
}

absl::Status CudaDecodeRunner::TakeError(uint64_t step) {
  const volatile uint64_t* raised = &error_->raised;
  if (*raised == 0) return absl::OkStatus();
  const ErrorSlot e = *error_;
  // Of the steps in flight it need not be the one that is awaited.
  const uint64_t raising = step_base_ + RaisingStep(e.raised, step - step_base_);
  std::string counts;
  if (e.kind == kWaitCounter) counts = absl::StrCat(": wanted ", e.wanted, ", found ", e.seen);
  return absl::InternalError(absl::StrCat(
      "decode step ", raising, ": worker ", e.worker, " waited in vain for ",
      kWaitKindNames[e.kind < std::size(kWaitKindNames) ? e.kind : 0], " ", e.counter, " in task ",
      static_cast<int>(e.task), " (", e.op < kOpCount ? OpName(static_cast<OpKind>(e.op)) : "?",
      ", layer ", e.layer, ")", counts, LostSignals()));
}

// The grid runs to its end after an error, every task signals, and what is missing then was lost.
std::string CudaDecodeRunner::LostSignals() const {
  std::vector<uint32_t> counters(graph_counters_ * kCounterStride);
  if (cudaStreamSynchronize(stream_) != cudaSuccess ||
      cudaMemcpy(counters.data(), params_.counters, counters.size() * sizeof(uint32_t),
                 cudaMemcpyDeviceToHost) != cudaSuccess) {
    return "; the counters cannot be read";
  }
  const auto steps = static_cast<uint32_t>(submitted_ - step_base_);
  std::string text;
  for (size_t id = 0; id < producers_.size(); ++id) {
    const uint32_t lost = producers_[id] * steps - counters[id * kCounterStride];
    if (lost == 0) continue;
    const CounterPlace place = PlaceOfCounter(static_cast<int>(id), config_.layer_count);
    absl::StrAppend(&text, "; ", lost, " signals of ", CounterKindName(place.kind), ", layer ",
                    place.layer, ", were lost");
  }
  return text;
}

// Spins on pinned memory until the step's results of every row are there.
absl::Status CudaDecodeRunner::WaitForResults(uint64_t step) {
  const RowResultSlot* results = results_ + step % kRing * kMaxRows;
  const uint64_t since_reset = step - step_base_;
  const std::chrono::nanoseconds limit(
      std::max(kMostStepNs, kMostStepTimeouts * tuning_.timeout_ns));
  const auto start = std::chrono::steady_clock::now();
  uint64_t spins = 0;
  for (int slot = 0; slot < kMaxRows; ++slot) {
    const volatile uint64_t* tag = &results[slot].tag;
    while (!IsResultOf(*tag, since_reset)) {
      if (++spins % kSpinsAQuery != 0) continue;
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state != cudaSuccess && state != cudaErrorNotReady)
        return CudaStatus(state, "decode step");
      if (state == cudaSuccess && !IsResultOf(*tag, since_reset)) {
        return absl::InternalError(
            absl::StrCat("decode step ", step, " ended without a result for row ", slot));
      }
      if (std::chrono::steady_clock::now() - start > limit) {
        hung_ = true;
        return absl::DeadlineExceededError(
            absl::StrCat("decode step ", step, ": wanted results within ", limit.count() / 1000000,
                         " ms, found none for row ", slot));
      }
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return absl::OkStatus();
}

absl::StatusOr<StepOutput> CudaDecodeRunner::Await() {
  BATON_CHECK(awaited_ < submitted_);
  const uint64_t step = awaited_ + 1;
  const int entry = static_cast<int>(step % kRing);
  BATON_RETURN_IF_ERROR(WaitForResults(step));
  ++awaited_;
  BATON_RETURN_IF_ERROR(TakeError(step));
  StepOutput output;
  output.step = step;
  const RowResultSlot* results = results_ + entry * kMaxRows;
  for (int slot = 0; slot < max_rows_; ++slot) {
    const RowResultSlot& r = results[slot];
    const uint64_t state = StateOf(r.tag);
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
  // The results come from within the kernel: its end follows in a moment, beside the next step.
  BATON_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end_[entry]));
  // A worker can learn of an abort, and end the step with results, before the error is written.
  BATON_RETURN_IF_ERROR(TakeError(step));
  float ms = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&ms, begin_[entry], end_[entry]));
  output.device_seconds = ms * 1e-3;
  if (stats_step_ != 0 && step > stats_step_) TakeStats();
  return output;
}

// Packets of the steps before must not pass for those of the steps to come.
absl::Status CudaDecodeRunner::ClearPackets() {
  for (const Packets& packets : packets_) {
    BATON_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(packets.memory, kNoPacket, packets.bytes, stream_));
  }
  return absl::OkStatus();
}

// On the steps' own stream, which does not wait for the default one.
absl::Status CudaDecodeRunner::ClearDeviceState() {
  BATON_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(
      params_.counters, 0, graph_counters_ * kCounterStride * sizeof(uint32_t), stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(params_.abort_flag, 0, sizeof(uint32_t), stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(params_.rows, 0, sizeof(RowState), stream_));
  BATON_RETURN_IF_ERROR(ClearPackets());
  std::memset(results_, 0, kRing * kMaxRows * sizeof(RowResultSlot));
  std::memset(error_, 0, sizeof(ErrorSlot));
  return absl::OkStatus();
}

absl::Status CudaDecodeRunner::Reset() {
  if (hung_) return absl::UnavailableError("a decode step never ended");
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_ERROR(ClearDeviceState());
  in_use_.assign(max_rows_, false);
  awaited_ = submitted_;
  step_base_ = submitted_;
  return absl::OkStatus();
}

// Between two steps and now and then, so that it delays the second of them by microseconds a second
// and the host by nothing: the copy is there when a later step's results are.
absl::Status CudaDecodeRunner::CopyStats() {
  const auto now = std::chrono::steady_clock::now();
  if (stats_step_ != 0 || now < next_stats_) return absl::OkStatus();
  next_stats_ = now + kStatsInterval;
  BATON_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(stats_, params_.stats,
                                             params_.worker_count * sizeof(WorkerStats),
                                             cudaMemcpyDeviceToHost, stream_));
  stats_step_ = submitted_;
  return absl::OkStatus();
}

void CudaDecodeRunner::TakeStats() {
  cycles_ = {};
  for (int worker = 0; worker < params_.worker_count; ++worker) {
    const WorkerStats& s = stats_[worker];
    cycles_.total += s.cycles;
    cycles_.memory += s.wait_memory;
    cycles_.routing += s.wait_routing;
    cycles_.join_and_norm += s.join_and_norm;
    cycles_.other += s.wait_other;
  }
  stats_step_ = 0;
}

absl::StatusOr<DecodeCycles> CudaDecodeRunner::ReadCycles() {
  stats_step_ = 0;
  next_stats_ = {};
  BATON_RETURN_IF_ERROR(CopyStats());
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  TakeStats();
  return cycles_;
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
  return DecodeTraceJson(events, params_.worker_count);
}

}  // namespace baton::cuda
