// RoutingPolicy: which decode worker gets a request and which prefill workers it may use. A pure
// function of a snapshot, the request's size and a random number generator that breaks ties.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/base/worker_report.h"

namespace baton {

enum class WorkerState : uint8_t { kConnecting, kReady, kDraining, kDown };

struct WorkerView {
  std::string address;  // host:port as configured.
  WorkerRole role = WorkerRole::kDecode;
  WorkerState state = WorkerState::kConnecting;
  std::string reason;   // Why not ready.
  WorkerReport report;  // The last one; empty before the first.
  // This router's own share, which a report may not show yet.
  uint32_t in_flight = 0;
  uint64_t in_flight_prompt_tokens = 0;
};

struct RouteRequest {
  uint32_t prompt_tokens = 0;
  uint32_t max_tokens = 0;
  std::vector<std::string> excluded;  // Decode workers that were tried.
};

struct Route {
  std::string decode;
  // Best first; at least one, or none for a decode worker that prefills itself.
  std::vector<std::string> prefill;
};

// The least loaded decode worker that prefills itself or has a prefill worker of the same model,
// then its prefill workers by prompt tokens queued. Equals are ordered at random. Unavailable: no
// pair is ready. ResourceExhausted: every pair's queue is full. InvalidArgument: no worker's
// context is as long as the request.
absl::StatusOr<Route> ChooseRoute(absl::Span<const WorkerView> workers, const RouteRequest& request,
                                  std::mt19937_64& random);

// Longest sequence that a ready pair can hold, tokens; 0 if there is no pair.
uint32_t LongestContext(absl::Span<const WorkerView> workers);

}  // namespace baton
