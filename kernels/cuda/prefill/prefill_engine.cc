#include "kernels/cuda/prefill/prefill_engine.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/prefill_chunk_run.h"

namespace baton::prefill {
namespace {

constexpr uint64_t kCublasWorkspaceBytes = uint64_t{64} << 20;

}  // namespace

PrefillEngine::PrefillEngine(const ModelConfig& config,
                             std::shared_ptr<const PrefillWeights> weights,
                             const PrefillEngineOptions& options)
    : config_(config),
      weights_(std::move(weights)),
      options_(options),
      attention_kernel_(options.attention.value_or(
          ChooseAttentionKernel(config.head_dim, config.query_heads, config.kv_heads))),
      timer_(options.time_stages) {}

PrefillEngine::~PrefillEngine() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (cublas_ != nullptr) cublas_library_.destroy(cublas_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::StatusOr<std::unique_ptr<PrefillEngine>> PrefillEngine::Create(
    const ModelConfig& config, std::shared_ptr<const PrefillWeights> weights,
    const PrefillEngineOptions& options) {
  if (options.max_chunk_tokens < 1 || options.max_segments < 1) {
    return absl::InvalidArgumentError(absl::StrCat("chunks of ", options.max_chunk_tokens,
                                                   " tokens and ", options.max_segments,
                                                   " prompts; wanted at least 1 of each"));
  }
  std::unique_ptr<PrefillEngine> engine(new PrefillEngine(config, std::move(weights), options));
  int device = 0;
  BATON_PREFILL_CUDA(cudaGetDevice(&device));
  BATON_PREFILL_CUDA(
      cudaDeviceGetAttribute(&engine->multiprocessors_, cudaDevAttrMultiProcessorCount, device));
  BATON_PREFILL_CUDA(cudaStreamCreateWithFlags(&engine->stream_, cudaStreamNonBlocking));
  if (!options.pinned) BATON_RETURN_IF_ERROR(engine->LoadCublas());
  BufferLimits limits;
  limits.max_tokens = options.max_chunk_tokens;
  limits.max_segments = options.max_segments;
  BATON_ASSIGN_OR_RETURN(engine->buffers_, MakePrefillBuffers(config, *engine->weights_, limits));
  BATON_ASSIGN_OR_RETURN(engine->sampled_,
                         PinnedMemory::Allocate(options.max_segments * sizeof(SampledToken)));
  return engine;
}

// Takes two seconds and memory of the device: not for pinned products, which do without.
absl::Status PrefillEngine::LoadCublas() {
  BATON_ASSIGN_OR_RETURN(cublas_library_, CublasLibrary::Load());
  const CublasLibrary& cublas = cublas_library_;
  BATON_PREFILL_CUBLAS(cublas.create(&cublas_));
  BATON_PREFILL_CUBLAS(cublas.set_stream(cublas_, stream_));
  BATON_ASSIGN_OR_RETURN(cublas_workspace_, DeviceMemory::Allocate(kCublasWorkspaceBytes));
  BATON_PREFILL_CUBLAS(
      cublas.set_workspace(cublas_, cublas_workspace_.data(), kCublasWorkspaceBytes));
  BATON_PREFILL_CUBLAS(cublas.set_math_mode(
      cublas_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                         CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  return absl::OkStatus();
}

absl::Status PrefillEngine::CheckTarget(const KvTarget& target) const {
  if (target.base == nullptr || target.layout == nullptr) {
    return absl::InvalidArgumentError("no KV arena to write to");
  }
  const KvLayout& layout = *target.layout;
  if (layout.kv_heads == uint32_t(config_.kv_heads) &&
      layout.head_dim == uint32_t(config_.head_dim) && layout.element_bytes == 2 &&
      layout.swizzled && layout.layer_group.size() == size_t(config_.layer_count)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("KV arena of ", layout.layer_group.size(), " layers, ", layout.kv_heads,
                   " heads of ", layout.head_dim, ", ", layout.element_bytes, " bytes, swizzled ",
                   layout.swizzled, "; wanted ", config_.layer_count, " layers, ", config_.kv_heads,
                   " heads of ", config_.head_dim, ", 2 bytes, swizzled 1"));
}

absl::StatusOr<std::vector<std::optional<SampledToken>>> PrefillEngine::RunSegments(
    absl::Span<const PrefillSegment> segments, const KvTarget& target, const KvTarget* push) {
  BATON_RETURN_IF_ERROR(CheckTarget(target));
  if (push != nullptr) BATON_RETURN_IF_ERROR(CheckTarget(*push));
  ChunkLimits limits;
  limits.max_tokens = options_.max_chunk_tokens;
  limits.max_segments = options_.max_segments;
  limits.max_positions = config_.max_positions;
  limits.vocab = config_.vocab;
  limits.tile_tokens =
      AttentionTileTokens(attention_kernel_, config_.query_heads, config_.kv_heads);
  BATON_ASSIGN_OR_RETURN(const ChunkPlan plan, PlanChunk(segments, *target.layout, limits));
  if (push != nullptr) BATON_RETURN_IF_ERROR(BeginPush(segments, target, *push));
  auto results = RunPlan(plan, segments, target, push != nullptr);
  if (!results.ok()) {
    cudaStreamSynchronize(stream_);
    if (pusher_ != nullptr) pusher_->Drain();
  }
  return results;
}

double PrefillEngine::EstimateSeconds(absl::Span<const PromptStretch> stretches) const {
  return EstimateChunkSeconds(config_, stretches,
                              DeviceRates{}.WithMultiprocessors(multiprocessors_));
}

absl::StatusOr<std::vector<std::optional<SampledToken>>> PrefillEngine::RunPlan(
    const ChunkPlan& plan, absl::Span<const PrefillSegment> segments, const KvTarget& target,
    bool push) {
  BATON_ASSIGN_OR_RETURN(const DevicePlan device, upload_.Start(plan, segments, stream_));
  Chunk chunk{plan, device, target, push, {}};
  if (attention_kernel_ == AttentionKernel::kWgmma) {
    for (int l = 0; l < config_.layer_count; ++l) {
      BATON_ASSIGN_OR_RETURN(chunk.kv_maps[target.layout->layer_group[l]],
                             MakeKvMap(LayerView(target, l), config_.head_dim));
    }
  }
  BATON_RETURN_IF_ERROR(RunLayers(chunk));
  return Finish(chunk, segments);
}

absl::Status PrefillEngine::MakePusher() {
  if (pusher_ != nullptr) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(pusher_, KvPusher::Create({.layer_count = config_.layer_count,
                                                    .method = options_.copy_method,
                                                    .copy_bytes = options_.copy_bytes}));
  return absl::OkStatus();
}

absl::Status PrefillEngine::BeginPush(absl::Span<const PrefillSegment> segments,
                                      const KvTarget& target, const KvTarget& push) {
  BATON_RETURN_IF_ERROR(MakePusher());
  std::vector<PushSegment> pushes;
  for (const PrefillSegment& segment : segments) {
    if (segment.push_pages == nullptr) {
      return absl::InvalidArgumentError("a pushed chunk has a segment without push_pages");
    }
    pushes.push_back(PushSegment{segment.pages, segment.push_pages, segment.begin,
                                 segment.begin + static_cast<int>(segment.tokens.size())});
  }
  return pusher_->Begin(target, push, pushes);
}

absl::Status PrefillEngine::PullPrefix(const KvTarget& arena, const KvTarget& workspace,
                                       const PrefillSegment& segment) {
  BATON_RETURN_IF_ERROR(MakePusher());
  return pusher_->PullPrefix(
      arena, workspace,
      PushSegment{segment.pages, segment.push_pages, segment.begin, segment.begin});
}

absl::StatusOr<std::vector<std::optional<SampledToken>>> PrefillEngine::Finish(
    const Chunk& chunk, absl::Span<const PrefillSegment> segments) {
  const ChunkPlan& plan = chunk.plan;
  const size_t rows = plan.sample_rows.size();
  if (rows > 0) {
    BATON_PREFILL_CUDA(cudaMemcpyAsync(sampled_.data(), buffers_.sampled,
                                       rows * sizeof(SampledToken), cudaMemcpyDeviceToHost,
                                       stream_));
  }
  if (chunk.push) BATON_RETURN_IF_ERROR(pusher_->Finish(stream_));
  BATON_PREFILL_CUDA(cudaStreamSynchronize(stream_));
  BATON_RETURN_IF_ERROR(timer_.Collect());
  std::vector<std::optional<SampledToken>> results(segments.size());
  for (size_t row = 0; row < rows; ++row) {
    const int segment = plan.sample_segment[row];
    results[segment] = sampled_.As<SampledToken>()[row];
    std::vector<float>* logits = segments[segment].logits;
    if (logits == nullptr) continue;
    logits->resize(config_.vocab);
    BATON_PREFILL_CUDA(cudaMemcpy(logits->data(), buffers_.logits + row * config_.vocab,
                                  config_.vocab * sizeof(float), cudaMemcpyDeviceToHost));
  }
  return results;
}

}  // namespace baton::prefill
