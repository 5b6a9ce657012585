// Sequence: one live request of the decode engine. Only the engine's thread touches it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/generation.h"
#include "kernels/kv/kv_lease.h"
#include "services/base/token_channel.h"
#include "services/decode/batch_scheduler.h"

namespace baton {

using SteadyTime = std::chrono::steady_clock::time_point;

// A validated request as the engine takes it.
struct DecodeJob {
  std::string request_id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  uint32_t max_tokens = 1;
  std::vector<TokenId> stop_ids;
  std::vector<std::string> prefill_workers;  // To try, best first.
};

enum class SequenceState : uint8_t { kWaiting, kPrefilling, kReady, kRunning };

struct Sequence {
  SequenceId id = 0;
  DecodeJob job;
  std::shared_ptr<TokenChannel> stream;  // Shared with the RPC that reads it.
  SequenceState state = SequenceState::kWaiting;
  KvSequencePages pages;  // Held from kPrefilling's end; during prefill the lease holds them.
  uint32_t full_pages = 0;
  uint32_t window_pages = 0;  // To reserve; prefill needs a larger ring than decode.
  size_t next_worker = 0;     // Index into job.prefill_workers.
  absl::Status last_error;    // Of the prefill worker tried last.
  int slot = -1;
  TokenId first_token = -1;
  uint32_t completion_tokens = 0;
  SteadyTime arrived;
  SteadyTime prefill_started;
  SteadyTime first_token_at;

  bool needs_row() const { return job.max_tokens > 1; }
};

}  // namespace baton
