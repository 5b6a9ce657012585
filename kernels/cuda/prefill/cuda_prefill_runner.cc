#include "kernels/cuda/prefill/cuda_prefill_runner.h"

#include <vector>

#include "common/check.h"

namespace baton::prefill {

absl::StatusOr<std::optional<SampledToken>> CudaPrefillRunner::RunChunk(const PrefillChunk& chunk) {
  PrefillSegment segment;
  segment.tokens = chunk.tokens;
  segment.begin = chunk.begin;
  segment.pages = chunk.pages;
  segment.sample = chunk.sample;
  segment.sampling = chunk.sampling;
  segment.logits = chunk.logits;
  KvTarget target;
  target.base = chunk.kv_base;
  target.layout = chunk.layout;
  BATON_ASSIGN_OR_RETURN(const std::vector<std::optional<SampledToken>> results,
                         engine_->RunSegments({&segment, 1}, target));
  return results[0];
}

}  // namespace baton::prefill
