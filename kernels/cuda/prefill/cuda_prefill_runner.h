// CudaPrefillRunner: the PrefillRunner of the CUDA backend, one prompt per chunk. Owned by its
// service; one owner thread.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/prefill/prefill_engine.h"

namespace baton::prefill {

class CudaPrefillRunner : public PrefillRunner {
 public:
  explicit CudaPrefillRunner(std::unique_ptr<PrefillEngine> engine) : engine_(std::move(engine)) {}

  int max_chunk_tokens() const override { return engine_->options().max_chunk_tokens; }
  absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) override;

  // For callers that pack several prompts into a chunk.
  PrefillEngine& engine() { return *engine_; }

 private:
  std::unique_ptr<PrefillEngine> engine_;
};

}  // namespace baton::prefill
