#include "kernels/cuda/baseline/baseline_decode.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::cuda {
namespace {

constexpr int kMaxRows = 32;
constexpr uint64_t kWorkspaceBytes = uint64_t{64} << 20;
// Enough blocks for every multiprocessor, and no more splits than the merge adds up quickly.
constexpr int kWantedBlocks = 528;
constexpr int kMaxSplits = 64;
constexpr int kLeastPages = 2;  // A split.

absl::Status Refuse(const char* what, const char* wanted, int64_t found) {
  return absl::FailedPreconditionError(
      absl::StrCat("decode baseline: ", what, ": wanted ", wanted, ", found ", found));
}

}  // namespace

BaselineDecode::BaselineDecode(const ModelConfig& config, const prefill::PrefillWeights& weights,
                               const BaselineBatch& batch)
    : config_(config), weights_(weights), batch_(batch) {}

BaselineDecode::~BaselineDecode() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  if (cublas_ != nullptr) library_.destroy(cublas_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::StatusOr<std::unique_ptr<BaselineDecode>> BaselineDecode::Create(
    const ModelConfig& config, const prefill::PrefillWeights& weights, const BaselineBatch& batch) {
  std::unique_ptr<BaselineDecode> baseline(new BaselineDecode(config, weights, batch));
  BATON_RETURN_IF_ERROR(baseline->Check());
  BATON_RETURN_IF_ERROR(baseline->Prepare());
  return baseline;
}

absl::Status BaselineDecode::Check() const {
  if (rows() < 1 || rows() > kMaxRows) return Refuse("rows", "1 to 32", rows());
  if (config_.head_dim != kBaselineHeadDim) return Refuse("head_dim", "128", config_.head_dim);
  const int group = config_.query_heads / config_.kv_heads;
  if (group > kBaselineMaxGroup) return Refuse("query heads a KV head", "at most 8", group);
  if (config_.expert_count > kBaselineMaxExperts)
    return Refuse("num_experts", "at most 256", config_.expert_count);
  if (rows() * config_.experts_per_token > kBaselineMaxSlots)
    return Refuse("rows times num_experts_per_tok", "at most 512",
                  rows() * config_.experts_per_token);
  if (config_.hidden % 8 != 0) return Refuse("hidden_size", "a multiple of 8", config_.hidden);
  if (!batch_.layout.swizzled || batch_.layout.element_bytes != 2)
    return absl::InvalidArgumentError("decode baseline: wanted swizzled bf16 KV tiles");
  return absl::OkStatus();
}

absl::Status BaselineDecode::Prepare() {
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  BATON_ASSIGN_OR_RETURN(library_, prefill::CublasLibrary::Load());
  BATON_PREFILL_CUBLAS(library_.create(&cublas_));
  BATON_PREFILL_CUBLAS(library_.set_stream(cublas_, stream_));
  BATON_ASSIGN_OR_RETURN(workspace_, prefill::DeviceMemory::Allocate(kWorkspaceBytes));
  BATON_PREFILL_CUBLAS(library_.set_workspace(cublas_, workspace_.data(), kWorkspaceBytes));
  BATON_RETURN_IF_ERROR(Allocate());
  // Once without a graph: cuBLAS chooses and loads its kernels.
  BATON_RETURN_IF_ERROR(LoadState());
  BATON_RETURN_IF_ERROR(EnqueueStep());
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_ERROR(Capture());
  return LoadState();
}

absl::Status BaselineDecode::Allocate() {
  int longest = 0;
  for (const BaselineRow& row : batch_.rows) {
    longest = std::max(longest, row.position + batch_.max_steps);
    full_stride_ = std::max<int>(full_stride_, row.pages.full.size());
    window_stride_ = std::max<int>(window_stride_, row.pages.window.size());
  }
  const int pages[] = {static_cast<int>(FullPagesFor(longest)),
                       static_cast<int>(FullPagesFor(std::min(longest, config_.window_keys))) + 1};
  for (int g = 0; g < kKvGroupCount; ++g) {
    const int wanted = std::clamp(kWantedBlocks / (rows() * config_.kv_heads), 1, kMaxSplits);
    pages_per_split_[g] = std::max(kLeastPages, (pages[g] + wanted - 1) / wanted);
    max_splits_[g] = (pages[g] + pages_per_split_[g] - 1) / pages_per_split_[g];
  }
  const int64_t n = rows(), hidden = config_.hidden, slots = n * config_.experts_per_token;
  const int64_t partials =
      n * config_.kv_heads * std::max(max_splits_[0], max_splits_[1]) * kBaselineMaxGroup;
  int64_t qkv = 0, dense = 8;
  for (const prefill::PrefillLayerWeights& layer : weights_.layers()) {
    qkv = std::max<int64_t>(qkv, layer.qkv_router_rows);
    dense = std::max<int64_t>(dense, layer.width);
  }
  // Two passes over one list: sizes, then addresses.
  prefill::BufferPlan plan;
  const auto lay_out = [&](bool place) {
    plan = {};
    const auto take = [&](auto*& pointer, int64_t count) {
      using T = std::remove_reference_t<decltype(*pointer)>;
      const uint64_t offset = plan.Add(std::max<int64_t>(count, 1) * sizeof(T));
      if (place) pointer = memory_.As<T>(offset);
    };
    take(at_.token_ids, n), take(at_.positions, n), take(at_.step, 1);
    take(at_.full_ring, n), take(at_.window_ring, n), take(at_.slot_rows, slots);
    take(at_.full_pages, n * full_stride_), take(at_.window_pages, n * window_stride_);
    take(at_.inverse_frequencies, config_.head_dim / 2);
    take(at_.rotary, n * config_.head_dim / 2), take(at_.logits, n * config_.vocab);
    take(at_.partial_o, partials * kBaselineHeadDim), take(at_.partial_ml, partials * 2);
    take(at_.x, n * hidden), take(at_.normed, n * hidden), take(at_.qkv, n * qkv);
    take(at_.attention, n * config_.query_heads * config_.head_dim);
    take(at_.projected, n * hidden), take(at_.gate_up, n * 2 * dense), take(at_.hidden, n * dense);
    take(at_.dense_out, n * hidden), take(at_.expert_hidden, slots * config_.expert_width);
    take(at_.expert_out, slots * hidden), take(at_.sample_rows, n);
    take(at_.partials, n * prefill::kSamplePartials), take(at_.sampled, n);
    take(at_.history, n * batch_.max_steps), take(at_.lists.active_count, 1);
    take(at_.lists.active_expert, config_.expert_count);
    take(at_.lists.first_slot, config_.expert_count + 1), take(at_.lists.slots, slots);
    take(at_.lists.slot_weights, slots), take(at_.lists.distinct, 1);
  };
  lay_out(false);
  BATON_ASSIGN_OR_RETURN(memory_, prefill::DeviceMemory::Allocate(plan.size_bytes()));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemset(memory_.data(), 0, plan.size_bytes()));
  lay_out(true);
  return absl::OkStatus();
}

// Everything that steps change, as it is before the first one.
absl::Status BaselineDecode::LoadState() {
  const auto upload = [](auto* to, const auto& from) {
    return CudaStatus(
        cudaMemcpy(to, from.data(), from.size() * sizeof(from[0]), cudaMemcpyHostToDevice),
        "baseline state");
  };
  std::vector<int32_t> tokens, positions, rings, slot_rows;
  std::vector<prefill::SampleRow> samples;
  std::vector<uint32_t> full(rows() * full_stride_), window(rows() * window_stride_), step{1};
  std::vector<unsigned long long> distinct{0};
  for (int r = 0; r < rows(); ++r) {
    const BaselineRow& row = batch_.rows[r];
    tokens.push_back(row.token);
    positions.push_back(row.position);
    rings.push_back(std::max<int>(1, row.pages.window.size()));
    samples.push_back({.temperature = 0, .position = row.position + 1});
    std::copy(row.pages.full.begin(), row.pages.full.end(), full.begin() + r * full_stride_);
    std::copy(row.pages.window.begin(), row.pages.window.end(),
              window.begin() + r * window_stride_);
  }
  for (int s = 0; s < rows() * config_.experts_per_token; ++s) slot_rows.push_back(s);
  std::vector<float> frequencies;
  for (int i = 0; i < config_.head_dim / 2; ++i) {
    frequencies.push_back(static_cast<float>(
        1.0 / std::pow(static_cast<double>(config_.rope_theta), 2.0 * i / config_.head_dim)));
  }
  BATON_RETURN_IF_ERROR(upload(at_.token_ids, tokens));
  BATON_RETURN_IF_ERROR(upload(at_.positions, positions));
  BATON_RETURN_IF_ERROR(upload(at_.window_ring, rings));
  BATON_RETURN_IF_ERROR(upload(at_.sample_rows, samples));
  BATON_RETURN_IF_ERROR(upload(at_.full_pages, full));
  BATON_RETURN_IF_ERROR(upload(at_.window_pages, window));
  BATON_RETURN_IF_ERROR(upload(at_.slot_rows, slot_rows));
  BATON_RETURN_IF_ERROR(upload(at_.inverse_frequencies, frequencies));
  BATON_RETURN_IF_ERROR(upload(at_.lists.distinct, distinct));
  BATON_RETURN_IF_ERROR(upload(at_.step, step));
  // Copies from pageable memory may return before the device has them.
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  return absl::OkStatus();
}

absl::Status BaselineDecode::Capture() {
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  const absl::Status enqueued = EnqueueStep();
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  BATON_RETURN_IF_ERROR(enqueued);
  BATON_RETURN_IF_CUDA_ERROR(ended);
  const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &node_count_);
  const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  BATON_RETURN_IF_CUDA_ERROR(counted);
  BATON_RETURN_IF_CUDA_ERROR(made);
  return absl::OkStatus();
}

absl::Status BaselineDecode::Step() {
  BATON_RETURN_IF_CUDA_ERROR(cudaGraphLaunch(graph_, stream_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SampledToken>> BaselineDecode::ReadHistory(int steps) {
  BATON_CHECK(steps <= batch_.max_steps);
  std::vector<SampledToken> history(size_t(steps) * rows());
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemcpy(
      history.data(), at_.history, history.size() * sizeof(SampledToken), cudaMemcpyDeviceToHost));
  return history;
}

absl::StatusOr<double> BaselineDecode::ReadDistinctExperts(int steps) {
  unsigned long long distinct = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(&distinct, at_.lists.distinct, sizeof(distinct), cudaMemcpyDeviceToHost));
  int sparse = 0;
  for (const LayerConfig& layer : config_.layers) sparse += !layer.dense;
  return sparse == 0 || steps == 0 ? 0.0 : static_cast<double>(distinct) / steps / sparse;
}

}  // namespace baton::cuda
