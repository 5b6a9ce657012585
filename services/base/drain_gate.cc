#include "services/base/drain_gate.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {

absl::Status DrainGate::Enter(uint32_t most) {
  std::lock_guard lock(mutex_);
  if (draining_) return absl::UnavailableError("the process is draining and takes no new requests");
  if (in_flight_count_ >= most) {
    return absl::ResourceExhaustedError(absl::StrCat(most, " requests are in flight"));
  }
  ++in_flight_count_;
  return absl::OkStatus();
}

void DrainGate::Leave() {
  std::lock_guard lock(mutex_);
  BATON_CHECK(in_flight_count_ > 0);
  if (--in_flight_count_ == 0) empty_.notify_all();
}

void DrainGate::BeginDrain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

bool DrainGate::draining() const {
  std::lock_guard lock(mutex_);
  return draining_;
}

uint32_t DrainGate::in_flight_count() const {
  std::lock_guard lock(mutex_);
  return in_flight_count_;
}

bool DrainGate::WaitEmpty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, timeout, [this] { return in_flight_count_ == 0; });
}

}  // namespace baton
