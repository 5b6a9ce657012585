#include "services/router/router_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr int kTextThreadCount = 2;

}  // namespace

RouterCore::RouterCore(RouterCoreOptions options)
    : options_(std::move(options)), random_(options_.seed) {
  for (int i = 0; i < kTextThreadCount; ++i) {
    text_executors_.push_back(std::make_unique<SerialExecutor>());
  }
}

absl::Status RouterCore::Enter() {
  const absl::Status entered = gate_.Enter(options_.max_in_flight);
  if (!absl::IsResourceExhausted(entered)) return entered;
  return absl::ResourceExhaustedError(absl::StrCat("the router is full: ", entered.message()));
}

PlanLimits RouterCore::Limits() const {
  const uint32_t longest =
      LongestContext(options_.directory->Snapshot(std::chrono::steady_clock::now()));
  return {.model_name = options_.model_name,
          .context_tokens = std::min(longest, options_.facts.max_positions)};
}

absl::StatusOr<Route> RouterCore::Choose(const RouteRequest& request) {
  const std::vector<WorkerView> workers =
      options_.directory->Snapshot(std::chrono::steady_clock::now());
  std::lock_guard lock(mutex_);
  return ChooseRoute(workers, request, random_);
}

uint64_t RouterCore::DrawNumber() {
  std::lock_guard lock(mutex_);
  return random_();
}

void RouterCore::PostTextWork(std::function<void()> work) {
  const uint32_t index = next_executor_.fetch_add(1) % kTextThreadCount;
  text_executors_[index]->Post(std::move(work));
}

}  // namespace baton
