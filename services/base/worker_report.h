// What a worker says about itself: the domain twin of StatusReport. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton {

inline constexpr int kReportIntervalMs = 250;  // A worker reports at least so often.

enum class WorkerRole : uint8_t { kDecode, kPrefill };

struct TransportReport {
  std::string peer;
  std::string kind;  // "posix_shm" or "cuda_ipc".
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;

  bool operator==(const TransportReport&) const = default;
};

struct WorkerReport {
  WorkerRole role = WorkerRole::kDecode;
  std::string incarnation;
  bool ready = false;
  bool draining = false;
  std::string reason;  // Why not ready.
  uint64_t model_fingerprint = 0;
  std::string device;
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint32_t max_rows = 0;
  uint32_t max_waiting = 0;
  uint64_t queued_prompt_tokens = 0;
  uint32_t full_pages = 0;
  uint32_t full_pages_used = 0;
  uint32_t window_pages = 0;
  uint32_t window_pages_used = 0;
  uint32_t quarantined_pages = 0;
  uint32_t max_context_tokens = 0;
  bool prefills_itself = false;  // Decode: needs no prefill worker.
  std::vector<TransportReport> transports;

  bool operator==(const WorkerReport&) const = default;
};

}  // namespace baton
