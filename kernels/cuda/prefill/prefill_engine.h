// PrefillEngine: runs chunks of prompts on one GPU, writing K/V into a paged arena. A chunk holds
// stretches of one or several prompts; their results do not depend on what else is in the chunk,
// and with `pinned` not on how a prompt is cut into chunks either, bit for bit.
//
// One owner thread. Everything but pushes runs on one stream; the host waits once, at the end of a
// chunk.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/prefill/attention.h"
#include "kernels/cuda/prefill/chunk_plan.h"
#include "kernels/cuda/prefill/chunk_upload.h"
#include "kernels/cuda/prefill/cublas_library.h"
#include "kernels/cuda/prefill/kv_push.h"
#include "kernels/cuda/prefill/prefill_buffers.h"
#include "kernels/cuda/prefill/prefill_weights.h"
#include "kernels/cuda/prefill/row_kernels.h"
#include "kernels/cuda/prefill/stage_timer.h"
#include "kernels/kv/kv_layout.h"
#include "kernels/models/chunk_cost.h"
#include "kernels/models/model_config.h"

namespace baton::prefill {

struct PrefillEngineOptions {
  int max_chunk_tokens = 8192;
  int max_segments = 32;  // Prompts in one chunk.
  // Uses TileGemm for every product instead of cuBLAS, whose algorithm depends on the chunk's size.
  bool pinned = false;
  std::optional<AttentionKernel> attention;  // Default: the fast one where it applies.
  bool time_stages = false;
  KvCopyMethod copy_method = KvCopyMethod::kAuto;
  uint64_t copy_bytes = kDefaultCopyBytes;
};

class PrefillEngine {
 public:
  static absl::StatusOr<std::unique_ptr<PrefillEngine>> Create(
      const ModelConfig& config, std::shared_ptr<const PrefillWeights> weights,
      const PrefillEngineOptions& options);
  ~PrefillEngine();
  PrefillEngine(const PrefillEngine&) = delete;
  PrefillEngine& operator=(const PrefillEngine&) = delete;

  // Runs one chunk and waits for it, also when it fails: nothing is written after the return. Per
  // segment the sampled token, if it asked for one. InvalidArgument leaves no trace in the arena;
  // after Internal the pages of these segments are undefined and the engine is unusable.
  //
  // With `push`, `target` is a local workspace and every segment's K/V also goes to the segment's
  // `push_pages` in that arena, on a peer GPU; both are complete when this returns.
  absl::StatusOr<std::vector<std::optional<SampledToken>>> RunSegments(
      absl::Span<const PrefillSegment> segments, const KvTarget& target,
      const KvTarget* push = nullptr);

  // Fetches a segment's cached prefix [0, begin) from the arena to the local workspace.
  absl::Status PullPrefix(const KvTarget& arena, const KvTarget& workspace,
                          const PrefillSegment& segment);

  // By the measured rates of an H200 and the multiprocessors that this process has.
  double EstimateSeconds(absl::Span<const PromptStretch> stretches) const;

  const PrefillEngineOptions& options() const { return options_; }
  const ModelConfig& config() const { return config_; }
  KvTransferStats kv_transfer() const {
    return pusher_ == nullptr ? KvTransferStats{} : pusher_->stats();
  }
  StageTimer& timer() { return timer_; }

 private:
  struct Chunk;
  struct Product;

  PrefillEngine(const ModelConfig& config, std::shared_ptr<const PrefillWeights> weights,
                const PrefillEngineOptions& options);
  absl::Status LoadCublas();
  absl::Status CheckTarget(const KvTarget& target) const;
  absl::Status MakePusher();
  absl::Status BeginPush(absl::Span<const PrefillSegment> segments, const KvTarget& target,
                         const KvTarget& push);
  absl::StatusOr<std::vector<std::optional<SampledToken>>> RunPlan(
      const ChunkPlan& plan, absl::Span<const PrefillSegment> segments, const KvTarget& target,
      bool push);
  absl::Status RunLayers(const Chunk& chunk);
  absl::Status RunEmbed(const Chunk& chunk);
  absl::Status RunAttention(const Chunk& chunk, int layer);
  absl::Status RunScatter(const Chunk& chunk, int layer);
  absl::Status Attend(const Chunk& chunk, int layer);
  absl::Status RunFeedForward(const Chunk& chunk, int layer);
  absl::Status RunRoute(const Chunk& chunk, int layer);
  absl::Status RunExperts(const Chunk& chunk, int layer);
  absl::Status RunCombine(const Chunk& chunk, int layer);
  absl::Status RunHead(const Chunk& chunk);
  absl::Status Multiply(const Product& product);
  absl::StatusOr<std::vector<std::optional<SampledToken>>> Finish(
      const Chunk& chunk, absl::Span<const PrefillSegment> segments);
  NormCall NormOf(const __nv_bfloat16* weight) const;

  const ModelConfig config_;
  const std::shared_ptr<const PrefillWeights> weights_;
  const PrefillEngineOptions options_;
  const AttentionKernel attention_kernel_;
  PrefillBuffers buffers_;
  ChunkUpload upload_;
  StageTimer timer_;
  std::unique_ptr<KvPusher> pusher_;  // Made when first needed.
  DeviceMemory cublas_workspace_;
  PinnedMemory sampled_;
  CublasLibrary cublas_library_{};
  cublasHandle_t cublas_ = nullptr;
  cudaStream_t stream_ = nullptr;
  int multiprocessors_ = 0;
};

}  // namespace baton::prefill
