// CpuPrefillRunner: the PrefillRunner over a StepEngine. A chunk is a step whose rows are the
// chunk's tokens, so that a prompt's K, V and logits are the same bits in any chunking, and the
// same as decode's. One owner thread.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/step_engine.h"

namespace baton {

class CpuPrefillRunner : public PrefillRunner {
 public:
  // The backend outlives the runner. InvalidArgument for a bad chunk size.
  static absl::StatusOr<std::unique_ptr<PrefillRunner>> Make(const CpuBackend& backend,
                                                             const PrefillRunnerOptions& options);

  int max_chunk_tokens() const override { return options_.max_chunk_tokens; }
  absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) override;

 private:
  CpuPrefillRunner(const CpuBackend& backend, const PrefillRunnerOptions& options);
  absl::Status Validate(const PrefillChunk& chunk) const;

  const ModelConfig& config_;
  const PrefillRunnerOptions options_;
  const KvLayout format_;  // Only its format counts.
  std::unique_ptr<StepEngine> engine_;
};

}  // namespace baton
