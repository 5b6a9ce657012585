// A PrefillClient without prefill workers: keeps every call until the test answers it, or answers
// as the scripted model would when told to. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "services/base/serial_executor.h"
#include "services/decode/prefill_client.h"

namespace baton {

class ScriptedPrefillClient final : public PrefillClient {
 public:
  struct PendingAttach {
    std::string address;
    std::function<void(absl::StatusOr<AttachAnswer>)> done;
  };
  struct PendingPrefill {
    std::string address;
    uint64_t call_id = 0;
    PrefillCall call;
    std::function<void(absl::StatusOr<PrefillAnswer>)> done;
  };
  struct PendingRevoke {
    std::string address;
    RevokeCall call;
    std::function<void(absl::Status)> done;
  };

  // Answers prefills at once: the first token is the prompt's last plus one.
  void AnswerByItself() {
    std::lock_guard lock(mutex_);
    automatic_ = true;
  }

  void Attach(const std::string& address, const KvArenaDescriptor&,
              std::function<void(absl::StatusOr<AttachAnswer>)> done) override {
    Push(attaches_, {address, std::move(done)});
  }
  uint64_t Prefill(const std::string& address, const PrefillCall& call,
                   std::function<void(absl::StatusOr<PrefillAnswer>)> done) override {
    std::unique_lock lock(mutex_);
    const uint64_t id = ++last_call_id_;
    if (automatic_) {
      const TokenId first = call.prompt.back() + 1;
      executor_.Post([done = std::move(done), first] {
        done(PrefillAnswer{.first = {.token = first, .logprob = -0.25f}});
      });
      return id;
    }
    prefills_.push_back({address, id, call, std::move(done)});
    changed_.notify_all();
    return id;
  }
  void CancelPrefill(uint64_t call_id) override {
    std::lock_guard lock(mutex_);
    cancelled_.insert(call_id);
    changed_.notify_all();
  }
  void Revoke(const std::string& address, const RevokeCall& call,
              std::function<void(absl::Status)> done) override {
    std::unique_lock lock(mutex_);
    if (automatic_) {
      executor_.Post([done = std::move(done)] { done(absl::OkStatus()); });
      return;
    }
    lock.unlock();
    Push(revokes_, {address, call, std::move(done)});
  }

  // The oldest call not yet taken; waits for it, and fails the wait after 10 s.
  std::optional<PendingAttach> NextAttach() { return Pop(attaches_); }
  std::optional<PendingPrefill> NextPrefill() { return Pop(prefills_); }
  std::optional<PendingRevoke> NextRevoke() { return Pop(revokes_); }
  bool WaitCancelled(uint64_t call_id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return cancelled_.contains(call_id); });
  }
  size_t pending_prefill_count() {
    std::lock_guard lock(mutex_);
    return prefills_.size();
  }

 private:
  static constexpr std::chrono::seconds kLimit{10};

  template <typename T>
  void Push(std::deque<T>& queue, T value) {
    std::lock_guard lock(mutex_);
    queue.push_back(std::move(value));
    changed_.notify_all();
  }
  template <typename T>
  std::optional<T> Pop(std::deque<T>& queue) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kLimit, [&] { return !queue.empty(); })) return std::nullopt;
    T value = std::move(queue.front());
    queue.pop_front();
    return value;
  }

  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  bool automatic_ = false;
  uint64_t last_call_id_ = 0;
  std::deque<PendingAttach> attaches_;
  std::deque<PendingPrefill> prefills_;
  std::deque<PendingRevoke> revokes_;
  std::set<uint64_t> cancelled_;
  SerialExecutor executor_;
};

}  // namespace baton
