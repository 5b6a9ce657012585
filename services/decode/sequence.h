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

inline SteadyTime SteadyNow() { return std::chrono::steady_clock::now(); }
inline double ToMilliseconds(SteadyTime::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// A validated request as the engine takes it.
struct DecodeJob {
  std::string request_id;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  uint32_t max_tokens = 1;
  std::vector<TokenId> stop_ids;
  std::vector<std::string> prefill_workers;  // To try, best first.
};

// Who computes a prompt's K/V: a prefill worker, this process between decode steps, or decode steps
// themselves, a token each.
enum class PrefillPath : uint8_t { kWorker, kSelf, kInline };

enum class SequenceState : uint8_t { kWaiting, kPrefilling, kReady, kRunning };

struct Sequence {
  SequenceId id = 0;
  DecodeJob job;
  std::shared_ptr<TokenChannel> stream;  // Shared with the RPC that reads it.
  SequenceState state = SequenceState::kWaiting;
  PrefillPath path = PrefillPath::kWorker;
  // Held from kPrefilling's end, and while this process prefills; a worker's lease holds them else.
  KvSequencePages pages;
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

  bool needs_row() const { return path == PrefillPath::kInline || job.max_tokens > 1; }
};

}  // namespace baton
