#include "kernels/cuda/bench/cuda_prefill_benchmark.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "common/check.h"
#include "common/log.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/cuda/prefill/prefill_engine.h"
#include "kernels/kv/model_kv_layout.h"
#include "kernels/models/chunk_cost.h"
#include "kernels/models/north_geometry.h"

namespace baton::cuda {
namespace {

using prefill::DeviceMemory;
using prefill::PrefillEngine;
using prefill::PrefillSegment;
using prefill::PrefillWeights;

constexpr int kMaxSegments = 64;  // Prompts in one chunk.
constexpr uint64_t kWeightSeed = 1;

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint32_t RingPages(const ModelConfig& config, int length, int chunk_tokens) {
  return WindowPagesFor(length, config.window_keys, std::min(length, chunk_tokens));
}

// The point's prompts: equal tokens, each on pages of its own.
struct PromptSet {
  std::vector<TokenId> tokens;
  std::vector<KvPageTable> pages;
};

class CudaPrefillBenchmark : public PrefillBenchmark {
 public:
  static absl::StatusOr<std::unique_ptr<PrefillBenchmark>> Create(
      const PrefillBenchmarkOptions& options);

  std::string device() const override { return device_; }
  uint64_t weight_bytes() const override { return weights_->size_bytes(); }
  absl::StatusOr<PrefillMeasurement> Measure(const PrefillPoint& point) override;

 private:
  CudaPrefillBenchmark(const ModelConfig& config, const PrefillBenchmarkOptions& options)
      : config_(config), options_(options) {}
  absl::Status Prepare();
  absl::StatusOr<std::unique_ptr<PrefillEngine>> MakeEngine(bool time_stages) const;
  PromptSet MakePrompts(const PrefillPoint& point) const;
  std::vector<std::vector<PrefillSegment>> Chunks(const PromptSet& prompts) const;
  absl::Status RunOnce(PrefillEngine& engine, const PromptSet& prompts) const;
  double EstimateSeconds(const PromptSet& prompts) const;

  const ModelConfig config_;
  const PrefillBenchmarkOptions options_;
  std::string device_;
  std::shared_ptr<const PrefillWeights> weights_;
  KvLayout layout_;
  DeviceMemory arena_;
  std::unique_ptr<PrefillEngine> plain_;
  std::unique_ptr<PrefillEngine> timed_;  // Events between its launches cost time of their own.
};

absl::StatusOr<std::unique_ptr<PrefillEngine>> CudaPrefillBenchmark::MakeEngine(
    bool time_stages) const {
  return PrefillEngine::Create(config_, weights_,
                               {.max_chunk_tokens = options_.chunk_tokens,
                                .max_segments = kMaxSegments,
                                .pinned = options_.pinned,
                                .time_stages = time_stages});
}

absl::Status CudaPrefillBenchmark::Prepare() {
  cudaDeviceProp properties = {};
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, 0));
  device_ = properties.name;
  uint32_t full = 0, window = 0;
  for (const PrefillPoint& point : options_.points) {
    const auto count = static_cast<uint32_t>(point.count);
    full = std::max(full, count * FullPagesFor(point.length));
    window = std::max(window, count * RingPages(config_, point.length, options_.chunk_tokens));
  }
  layout_ = MakeModelKvLayout(config_, {.element_bytes = 2, .swizzled = true}, full, window);
  spdlog::info("msg=\"making weights\" synthetic={} arena_mib={}", options_.checkpoint == nullptr,
               layout_.total_bytes() >> 20);
  if (options_.checkpoint != nullptr) {
    BATON_ASSIGN_OR_RETURN(weights_,
                           PrefillWeights::Upload(config_, options_.checkpoint->weights()));
  } else {
    BATON_ASSIGN_OR_RETURN(weights_, PrefillWeights::Synthetic(config_, kWeightSeed));
  }
  BATON_ASSIGN_OR_RETURN(arena_, DeviceMemory::Allocate(layout_.total_bytes()));
  BATON_ASSIGN_OR_RETURN(plain_, MakeEngine(false));
  BATON_ASSIGN_OR_RETURN(timed_, MakeEngine(true));
  return absl::OkStatus();
}

PromptSet CudaPrefillBenchmark::MakePrompts(const PrefillPoint& point) const {
  PromptSet prompts;
  std::mt19937 random(static_cast<uint32_t>(point.length));
  for (int i = 0; i < point.length; ++i) {
    prompts.tokens.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(config_.vocab)));
  }
  PagesInOrder pages(layout_);
  for (int i = 0; i < point.count; ++i) {
    prompts.pages.push_back(pages.Take(FullPagesFor(point.length),
                                       RingPages(config_, point.length, options_.chunk_tokens)));
  }
  return prompts;
}

// Prompts fill chunks in order; what is left of a chunk that a prompt does not fit into stays
// empty.
std::vector<std::vector<PrefillSegment>> CudaPrefillBenchmark::Chunks(
    const PromptSet& prompts) const {
  const size_t chunk = static_cast<size_t>(options_.chunk_tokens);
  std::vector<std::vector<PrefillSegment>> chunks;
  size_t filled = chunk;
  for (const KvPageTable& pages : prompts.pages) {
    for (size_t begin = 0; begin < prompts.tokens.size(); begin += chunk) {
      PrefillSegment segment;
      segment.begin = static_cast<int>(begin);
      segment.tokens = absl::MakeConstSpan(prompts.tokens).subspan(begin, chunk);
      segment.pages = &pages;
      segment.sample = begin + segment.tokens.size() == prompts.tokens.size();
      if (filled + segment.tokens.size() > chunk || chunks.back().size() == kMaxSegments) {
        chunks.emplace_back();
        filled = 0;
      }
      filled += segment.tokens.size();
      chunks.back().push_back(segment);
    }
  }
  return chunks;
}

absl::Status CudaPrefillBenchmark::RunOnce(PrefillEngine& engine, const PromptSet& prompts) const {
  const prefill::KvTarget target{arena_.data(), &layout_};
  for (const std::vector<PrefillSegment>& segments : Chunks(prompts)) {
    BATON_RETURN_IF_ERROR(engine.RunSegments(segments, target).status());
  }
  return absl::OkStatus();
}

double CudaPrefillBenchmark::EstimateSeconds(const PromptSet& prompts) const {
  double seconds = 0;
  for (const std::vector<PrefillSegment>& segments : Chunks(prompts)) {
    std::vector<PromptStretch> costs;
    for (const PrefillSegment& segment : segments) {
      costs.push_back({segment.begin, static_cast<int64_t>(segment.tokens.size())});
    }
    seconds += EstimateChunkSeconds(config_, costs);
  }
  return seconds;
}

absl::StatusOr<PrefillMeasurement> CudaPrefillBenchmark::Measure(const PrefillPoint& point) {
  const PromptSet prompts = MakePrompts(point);
  const PromptStretch whole{.begin = 0, .tokens = point.length};
  const ChunkWork work = CountChunkWork(config_, {&whole, 1});
  PrefillMeasurement measured{
      .seconds_estimated = EstimateSeconds(prompts),
      .tokens = static_cast<uint64_t>(point.length) * static_cast<uint64_t>(point.count),
      .matrix_operations = work.matrix_operations * point.count,
      .attention_operations = work.attention_operations * point.count};
  BATON_RETURN_IF_ERROR(RunOnce(*plain_, prompts));
  std::vector<double> seconds;
  for (int i = 0; i < options_.repeats; ++i) {
    const double start = NowSeconds();
    BATON_RETURN_IF_ERROR(RunOnce(*plain_, prompts));
    seconds.push_back(NowSeconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  measured.seconds_median = seconds[seconds.size() / 2];
  measured.seconds_best = seconds.front();
  BATON_RETURN_IF_ERROR(RunOnce(*timed_, prompts));
  timed_->timer().Reset();
  BATON_RETURN_IF_ERROR(RunOnce(*timed_, prompts));
  for (int i = 0; i < prefill::kStageCount; ++i) {
    measured.stages.push_back({.name = prefill::StageName(static_cast<prefill::Stage>(i)),
                               .seconds = timed_->timer().seconds()[static_cast<size_t>(i)]});
  }
  return measured;
}

absl::StatusOr<std::unique_ptr<PrefillBenchmark>> CudaPrefillBenchmark::Create(
    const PrefillBenchmarkOptions& options) {
  BATON_RETURN_IF_ERROR(CheckCudaDevice());
  const ModelConfig config = options.checkpoint != nullptr ? options.checkpoint->config()
                                                           : NorthMiniCodeGeometry(options.layers);
  auto benchmark = std::unique_ptr<CudaPrefillBenchmark>(new CudaPrefillBenchmark(config, options));
  BATON_RETURN_IF_ERROR(benchmark->Prepare());
  return benchmark;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrefillBenchmark>> MakeCudaPrefillBenchmark(
    const PrefillBenchmarkOptions& options) {
  return CudaPrefillBenchmark::Create(options);
}

}  // namespace baton::cuda
