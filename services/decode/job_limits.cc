#include "services/decode/job_limits.h"

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"

namespace baton {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckPages(const DecodeJob& job, const JobLimits& limits) {
  const KvGroupLayout& full = limits.layout.groups[kFullGroup];
  const uint32_t full_pages = FullPagesOf(job);
  // One page of each group is the scratch page.
  if (full.layer_count > 0 && full_pages >= full.page_count) {
    return Invalid("prompt + max_tokens: needs ", full_pages, " KV pages, the arena has ",
                   full.page_count - 1);
  }
  const KvGroupLayout& window = limits.layout.groups[kWindowGroup];
  const uint32_t window_pages = WindowPagesOf(job, limits);
  if (window.layer_count > 0 && window_pages >= window.page_count) {
    return Invalid("prompt + max_tokens: needs ", window_pages, " window KV pages, the arena has ",
                   window.page_count - 1);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsInline(const DecodeJob& job, const JobLimits& limits) {
  return job.prompt.size() <= limits.inline_prefill_tokens;
}

uint32_t FullPagesOf(const DecodeJob& job) {
  return FullPagesFor(uint64_t{job.prompt.size()} + job.max_tokens);
}

uint32_t WindowPagesOf(const DecodeJob& job, const JobLimits& limits) {
  if (limits.layout.groups[kWindowGroup].layer_count == 0) return 0;
  return WindowPagesFor(uint64_t{job.prompt.size()} + job.max_tokens, limits.layout.window_keys,
                        IsInline(job, limits) ? 1 : limits.chunk_tokens);
}

absl::Status CheckJob(const DecodeJob& job, const JobLimits& limits) {
  if (job.prompt.empty()) return Invalid("token_ids: wanted at least 1, found 0");
  if (job.max_tokens < 1) return Invalid("sampling.max_tokens: wanted at least 1, found 0");
  if (job.stop_ids.size() > kMaxStopIds) {
    return Invalid("stop_token_ids: wanted at most ", kMaxStopIds, ", found ", job.stop_ids.size());
  }
  for (size_t i = 0; i < job.prompt.size(); ++i) {
    const TokenId id = job.prompt[i];
    if (id < 0 || static_cast<uint32_t>(id) >= limits.vocab_size) {
      return Invalid("token_ids[", i, "]: wanted 0 to ", limits.vocab_size - 1, ", found ", id);
    }
  }
  if (uint64_t{job.prompt.size()} + job.max_tokens > limits.max_context_tokens) {
    return Invalid("prompt + max_tokens: wanted at most ", limits.max_context_tokens,
                   " tokens, found ", job.prompt.size(), " + ", job.max_tokens);
  }
  return CheckPages(job, limits);
}

}  // namespace baton
