#include "services/decode/self_prefill.h"

#include <algorithm>

#include "common/check.h"

namespace baton {

void SelfPrefill::Remove(const Sequence* sequence) {
  if (sequence == head() && started()) {
    options_.runner->EndSequence(sequence->id);
    done_tokens_ = 0;
  }
  std::erase(waiting_, sequence);
}

absl::StatusOr<std::optional<SampledToken>> SelfPrefill::RunChunk() {
  BATON_CHECK(!waiting_.empty());
  const Sequence& sequence = *waiting_.front();
  const std::vector<TokenId>& prompt = sequence.job.prompt;
  const size_t count = std::min(prompt.size() - done_tokens_,
                                static_cast<size_t>(options_.runner->max_chunk_tokens()));
  const bool last = done_tokens_ + count == prompt.size();
  const KvPageTable pages = sequence.pages.Table();
  absl::StatusOr<std::optional<SampledToken>> sampled =
      options_.runner->RunChunk({.sequence_id = sequence.id,
                                 .tokens = absl::MakeConstSpan(prompt).subspan(done_tokens_, count),
                                 .begin = static_cast<int>(done_tokens_),
                                 .pages = &pages,
                                 .kv_base = options_.kv_base,
                                 .layout = &options_.layout,
                                 .sample = last,
                                 .sampling = sequence.job.sampling});
  done_tokens_ += count;
  if (sampled.ok() && !last) return std::optional<SampledToken>();
  options_.runner->EndSequence(sequence.id);
  done_tokens_ = 0;
  waiting_.pop_front();
  if (sampled.ok() && !sampled->has_value()) {
    return absl::InternalError("the prefill runner sampled no first token");
  }
  return sampled;
}

}  // namespace baton
