#include "services/router/worker_directory.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

const char* RoleName(WorkerRole role) { return role == WorkerRole::kDecode ? "decode" : "prefill"; }

}  // namespace

void WorkerDirectory::AddWorker(const std::string& address, WorkerRole role) {
  std::lock_guard lock(mutex_);
  workers_[address] = {.view = {.address = address, .role = role, .reason = "not yet connected"}};
}

void WorkerDirectory::OnReport(const std::string& address, const WorkerReport& report,
                               TimePoint now) {
  std::lock_guard lock(mutex_);
  Entry& entry = workers_.at(address);
  entry.last_report = now;
  entry.view.report = report;
  if (report.role != entry.view.role) {
    entry.view.state = WorkerState::kDown;
    entry.view.reason = absl::StrCat("wanted a ", RoleName(entry.view.role), " worker, found a ",
                                     RoleName(report.role), " worker");
  } else if (report.draining) {
    entry.view.state = WorkerState::kDraining;
    entry.view.reason = "draining";
  } else {
    entry.view.state = report.ready ? WorkerState::kReady : WorkerState::kDown;
    entry.view.reason = report.ready ? "" : report.reason;
  }
}

void WorkerDirectory::OnLost(const std::string& address, const std::string& reason) {
  std::lock_guard lock(mutex_);
  Entry& entry = workers_.at(address);
  entry.view.state = WorkerState::kDown;
  entry.view.reason = reason;
  // Its identity stays on show; what it was doing is over.
  const WorkerReport& last = entry.view.report;
  entry.view.report = {.role = last.role,
                       .incarnation = last.incarnation,
                       .model_fingerprint = last.model_fingerprint,
                       .device = last.device};
}

void WorkerDirectory::Begin(const Route& route, uint32_t prompt_tokens) {
  std::lock_guard lock(mutex_);
  workers_.at(route.decode).view.in_flight += 1;
  if (route.prefill.empty()) return;
  WorkerView& prefill = workers_.at(route.prefill.front()).view;
  prefill.in_flight += 1;
  prefill.in_flight_prompt_tokens += prompt_tokens;
}

void WorkerDirectory::EndPrefill(const Route& route, uint32_t prompt_tokens) {
  if (route.prefill.empty()) return;
  std::lock_guard lock(mutex_);
  WorkerView& prefill = workers_.at(route.prefill.front()).view;
  BATON_CHECK(prefill.in_flight > 0 && prefill.in_flight_prompt_tokens >= prompt_tokens);
  prefill.in_flight -= 1;
  prefill.in_flight_prompt_tokens -= prompt_tokens;
}

void WorkerDirectory::End(const Route& route) {
  std::lock_guard lock(mutex_);
  WorkerView& decode = workers_.at(route.decode).view;
  BATON_CHECK(decode.in_flight > 0);
  decode.in_flight -= 1;
}

bool WorkerDirectory::Silent(const Entry& entry, TimePoint now) const {
  const bool there =
      entry.view.state == WorkerState::kReady || entry.view.state == WorkerState::kDraining;
  return there && now - entry.last_report > timeout_;
}

bool WorkerDirectory::IsSilent(const std::string& address, TimePoint now) const {
  std::lock_guard lock(mutex_);
  return Silent(workers_.at(address), now);
}

std::vector<WorkerView> WorkerDirectory::Snapshot(TimePoint now) const {
  std::lock_guard lock(mutex_);
  std::vector<WorkerView> views;
  for (const auto& [address, entry] : workers_) {
    views.push_back(entry.view);
    if (!Silent(entry, now)) continue;
    views.back().state = WorkerState::kDown;
    views.back().reason = absl::StrCat("silent for more than ", timeout_.count(), " ms");
  }
  return views;
}

}  // namespace baton
