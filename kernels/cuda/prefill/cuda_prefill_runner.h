// CudaPrefillRunner: the PrefillRunner of the CUDA backend. An arena on this GPU is written in
// place; for one on another GPU prompts are computed in local pages and pushed layer by layer.
// Owned by its service; one owner thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/cuda/prefill/prefill_engine.h"
#include "kernels/cuda/prefill/staging_pages.h"

namespace baton::prefill {

struct CudaPrefillRunnerOptions {
  int max_staged_tokens =
      0;                     // Longest prompt for an arena on another GPU; 0 = the model's longest.
  bool always_push = false;  // For tests: pushes to arenas on this GPU too.
};

class CudaPrefillRunner : public PrefillRunner {
 public:
  CudaPrefillRunner(std::unique_ptr<PrefillEngine> engine, const CudaPrefillRunnerOptions& options)
      : engine_(std::move(engine)), options_(options) {}

  int max_chunk_tokens() const override { return engine_->options().max_chunk_tokens; }
  int max_packed_prompts() const override { return engine_->options().max_segments; }
  absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) override;
  absl::StatusOr<std::vector<std::optional<SampledToken>>> RunChunks(
      absl::Span<const PrefillChunk> chunks) override;
  double EstimateChunkSeconds(absl::Span<const PromptStretch> stretches) const override {
    return engine_->EstimateSeconds(stretches);
  }
  void EndSequence(uint64_t sequence_id) override;
  KvTransferStats kv_transfer() const override { return engine_->kv_transfer(); }

 private:
  // Local pages in the layout of the arenas, made when the first arena on another GPU is written.
  struct Staging {
    KvLayout layout;
    DeviceMemory memory;
    StagingPages pages;
  };

  absl::Status MakeStaging();
  // Local pages of each chunk, with its cached prefix.
  absl::Status Stage(absl::Span<const PrefillChunk> chunks, std::vector<PrefillSegment>& segments);

  const std::unique_ptr<PrefillEngine> engine_;
  const CudaPrefillRunnerOptions options_;
  std::unique_ptr<Staging> staging_;
};

}  // namespace baton::prefill
