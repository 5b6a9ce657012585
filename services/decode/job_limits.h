// What a decode worker can never serve, whatever its load: the checks made before a request is
// queued. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/kv/kv_layout.h"
#include "services/decode/sequence.h"

namespace baton {

struct JobLimits {
  uint32_t vocab_size = 0;
  uint32_t max_context_tokens = 0;
  uint32_t chunk_tokens = 0;  // Longest prefill chunk: sizes the window ring.
  // Longest prompt that goes through decode rows token by token instead of a prefill; 0: none does.
  uint32_t inline_prefill_tokens = 0;
  KvLayout layout;  // Of the arena.
};

// Whether the job's prompt goes through its row of the decode batch.
bool IsInline(const DecodeJob& job, const JobLimits& limits);

// Pages that the job needs from each group, for its prompt and all of max_tokens.
uint32_t FullPagesOf(const DecodeJob& job);
uint32_t WindowPagesOf(const DecodeJob& job, const JobLimits& limits);

// InvalidArgument naming field, wanted and found.
absl::Status CheckJob(const DecodeJob& job, const JobLimits& limits);

}  // namespace baton
