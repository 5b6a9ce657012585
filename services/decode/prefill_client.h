// PrefillClient: the calls a decode worker makes on prefill workers. The seam between the hand-over
// logic and gRPC: tests put a scripted one in its place.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/generation.h"
#include "kernels/kv/kv_arena_descriptor.h"
#include "kernels/kv/kv_lease.h"

namespace baton {

struct AttachAnswer {
  std::string incarnation;  // Of the prefill process.
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
};

struct PrefillCall {
  std::string request_id;
  std::string prefill_incarnation;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  KvLease lease;
  std::chrono::milliseconds timeout{0};
};

struct PrefillAnswer {
  SampledToken first;
  double queue_ms = 0;
  double compute_ms = 0;
  uint64_t kv_bytes_written = 0;
};

struct RevokeCall {
  std::string arena_incarnation;
  std::string prefill_incarnation;
  uint64_t lease_id = 0;
};

// Calls never block. `done` runs exactly once, on any thread, never inside the call itself.
class PrefillClient {
 public:
  virtual ~PrefillClient() = default;
  virtual void Attach(const std::string& address, const KvArenaDescriptor& arena,
                      std::function<void(absl::StatusOr<AttachAnswer>)> done) = 0;
  // Returns an id for CancelPrefill.
  virtual uint64_t Prefill(const std::string& address, const PrefillCall& call,
                           std::function<void(absl::StatusOr<PrefillAnswer>)> done) = 0;
  // `done` still runs, soon. Without effect on a call that has ended.
  virtual void CancelPrefill(uint64_t call_id) = 0;
  virtual void Revoke(const std::string& address, const RevokeCall& call,
                      std::function<void(absl::Status)> done) = 0;
};

}  // namespace baton
