#include "services/router/routing_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

bool HasPrefill(absl::Span<const WorkerView> workers, uint64_t fingerprint) {
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerView& worker) {
    return worker.role == WorkerRole::kPrefill && worker.state == WorkerState::kReady &&
           worker.report.model_fingerprint == fingerprint;
  });
}

std::vector<const WorkerView*> PairedDecodeWorkers(absl::Span<const WorkerView> workers) {
  std::vector<const WorkerView*> paired;
  for (const WorkerView& worker : workers) {
    if (worker.role == WorkerRole::kDecode && worker.state == WorkerState::kReady &&
        (worker.report.prefills_itself || HasPrefill(workers, worker.report.model_fingerprint))) {
      paired.push_back(&worker);
    }
  }
  return paired;
}

// Requests on the worker as far as known here: its report lags behind what was just sent to it, and
// other routers' requests are in the report only.
uint32_t KnownRequests(const WorkerView& worker) {
  return std::max(worker.report.running + worker.report.waiting, worker.in_flight);
}

// Share of its rows that the worker's requests would fill; above 1 they wait.
double DecodeLoad(const WorkerView& worker) {
  return static_cast<double>(KnownRequests(worker)) / std::max(1u, worker.report.max_rows);
}

uint64_t PrefillLoad(const WorkerView& worker) {
  return std::max(worker.report.queued_prompt_tokens, worker.in_flight_prompt_tokens);
}

bool IsFull(const WorkerView& worker) {
  return KnownRequests(worker) >= worker.report.max_rows + worker.report.max_waiting;
}

// Sorts by load; the order of equals is random.
template <typename Load>
void OrderByLoad(std::vector<const WorkerView*>& workers, std::mt19937_64& random, Load load) {
  std::shuffle(workers.begin(), workers.end(), random);
  std::stable_sort(workers.begin(), workers.end(),
                   [&](const WorkerView* a, const WorkerView* b) { return load(*a) < load(*b); });
}

}  // namespace

absl::StatusOr<Route> ChooseRoute(absl::Span<const WorkerView> workers, const RouteRequest& request,
                                  std::mt19937_64& random) {
  std::vector<const WorkerView*> decode = PairedDecodeWorkers(workers);
  std::erase_if(decode, [&](const WorkerView* worker) {
    return std::find(request.excluded.begin(), request.excluded.end(), worker->address) !=
           request.excluded.end();
  });
  if (decode.empty()) {
    return absl::UnavailableError("no ready pair of a decode and a prefill worker of one model");
  }
  const uint64_t tokens = uint64_t{request.prompt_tokens} + request.max_tokens;
  uint32_t longest = 0;
  for (const WorkerView* worker : decode) {
    longest = std::max(longest, worker->report.max_context_tokens);
  }
  if (tokens > longest) {
    return absl::InvalidArgumentError(absl::StrCat("prompt + max_tokens: wanted at most ", longest,
                                                   " tokens, found ", request.prompt_tokens, " + ",
                                                   request.max_tokens));
  }
  std::erase_if(decode, [&](const WorkerView* worker) {
    return worker->report.max_context_tokens < tokens || IsFull(*worker);
  });
  if (decode.empty()) {
    return absl::ResourceExhaustedError("the queue of every decode worker is full");
  }
  OrderByLoad(decode, random, DecodeLoad);
  const WorkerView& chosen = *decode.front();

  Route route{.decode = chosen.address};
  if (chosen.report.prefills_itself) return route;
  std::vector<const WorkerView*> prefill;
  for (const WorkerView& worker : workers) {
    if (worker.role == WorkerRole::kPrefill && worker.state == WorkerState::kReady &&
        worker.report.model_fingerprint == chosen.report.model_fingerprint) {
      prefill.push_back(&worker);
    }
  }
  OrderByLoad(prefill, random, PrefillLoad);
  for (const WorkerView* worker : prefill) route.prefill.push_back(worker->address);
  return route;
}

uint32_t LongestContext(absl::Span<const WorkerView> workers) {
  uint32_t longest = 0;
  for (const WorkerView* worker : PairedDecodeWorkers(workers)) {
    longest = std::max(longest, worker->report.max_context_tokens);
  }
  return longest;
}

}  // namespace baton
