#include "services/base/status_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "services/base/proto_convert.h"

namespace baton {
namespace {

constexpr std::chrono::milliseconds kMinInterval(50);
constexpr std::chrono::milliseconds kHeartbeat(kReportIntervalMs);

}  // namespace

// One Watch call. One write is outstanding at most; a newer report replaces a waiting one.
class StatusService::Watcher final : public grpc::ServerWriteReactor<v1::StatusReport> {
 public:
  explicit Watcher(StatusService* service) : service_(service) {}

  void Offer(const v1::StatusReport& report) {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    next_ = report;
    WriteNext();
  }

  void End(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the watcher is gone"));
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!finished_) WriteNext();
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override { service_->Remove(this); }

 private:
  void WriteNext() {
    if (writing_ || !next_) return;
    current_ = *std::exchange(next_, std::nullopt);
    writing_ = true;
    StartWrite(&current_);
  }

  StatusService* const service_;
  std::mutex mutex_;  // Guards all below.
  v1::StatusReport current_;
  std::optional<v1::StatusReport> next_;
  bool writing_ = false;
  bool finished_ = false;
};

StatusService::StatusService(WorkerReport initial)
    : report_(std::move(initial)), thread_([this] { Run(); }) {}

StatusService::~StatusService() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StatusService::Update(WorkerReport report) {
  {
    std::lock_guard lock(mutex_);
    report.draining = draining_;
    if (report == report_) return;
    report_ = std::move(report);
    dirty_ = true;
  }
  changed_.notify_all();
}

void StatusService::SetDraining() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    report_.draining = true;
    dirty_ = true;
  }
  changed_.notify_all();
}

void StatusService::EndWatches() {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    watchers = watchers_;
  }
  const grpc::Status stopping(grpc::StatusCode::UNAVAILABLE, "the worker is stopping");
  for (const auto& watcher : watchers) watcher->End(stopping);
}

grpc::ServerWriteReactor<v1::StatusReport>* StatusService::Watch(grpc::CallbackServerContext*,
                                                                 const v1::WatchRequest*) {
  auto watcher = std::make_shared<Watcher>(this);
  v1::StatusReport first;
  bool ended = false;
  {
    std::lock_guard lock(mutex_);
    first = ToProto(report_, sequence_++);
    watchers_.push_back(watcher);
    ended = ended_;
  }
  if (ended) {
    watcher->End(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the worker is stopping"));
  } else {
    watcher->Offer(first);
  }
  return watcher.get();
}

void StatusService::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, kHeartbeat, [this] { return dirty_ || stopping_; });
    if (stopping_) return;
    dirty_ = false;
    const v1::StatusReport message = ToProto(report_, sequence_++);
    const std::vector<std::shared_ptr<Watcher>> watchers = watchers_;
    lock.unlock();
    for (const auto& watcher : watchers) watcher->Offer(message);
    lock.lock();
    changed_.wait_for(lock, kMinInterval, [this] { return stopping_; });
  }
}

void StatusService::Remove(Watcher* watcher) {
  std::shared_ptr<Watcher> last;  // Destroyed after the lock is gone.
  std::lock_guard lock(mutex_);
  const auto it = std::find_if(watchers_.begin(), watchers_.end(),
                               [watcher](const auto& entry) { return entry.get() == watcher; });
  last = std::move(*it);
  watchers_.erase(it);
}

}  // namespace baton
