#include "services/base/token_channel.h"

#include <utility>

#include "common/check.h"

namespace baton {

TokenChannel::TokenChannel(size_t capacity, std::function<void()> on_ready)
    : capacity_(capacity), on_ready_(std::move(on_ready)) {}

void TokenChannel::Push(const SampledToken& token, bool last) {
  bool notify = false;
  {
    std::lock_guard lock(mutex_);
    BATON_CHECK(!ended_ && !last_.has_value() && pushed_count_ < capacity_);
    ++pushed_count_;
    if (last) {
      last_ = token;
      return;
    }
    tokens_.push_back(token);
    notify = !std::exchange(notified_, true);
  }
  if (notify) on_ready_();
}

void TokenChannel::Finish(StreamEnd end) {
  bool notify = false;
  {
    std::lock_guard lock(mutex_);
    BATON_CHECK(!ended_);
    ended_ = true;
    end_ = std::move(end);
    if (last_.has_value()) tokens_.push_back(*last_);
    notify = !std::exchange(notified_, true);
  }
  if (notify) on_ready_();
}

TokenChannel::Batch TokenChannel::Take() {
  std::lock_guard lock(mutex_);
  notified_ = false;
  return Batch{.tokens = std::exchange(tokens_, {}), .ended = ended_, .end = end_};
}

}  // namespace baton
