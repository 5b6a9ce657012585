#include "services/router/worker_watch.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baton/v1/worker.grpc.pb.h"
#include "common/log.h"
#include "services/base/proto_convert.h"

namespace baton {
namespace {

constexpr std::chrono::milliseconds kFirstPause(50);
constexpr std::chrono::milliseconds kLongestPause(500);
constexpr std::chrono::milliseconds kTick(200);

std::string WhyEnded(const grpc::Status& status, bool given_up) {
  if (given_up) return "silent for too long";
  return status.error_message().empty() ? "the worker ended the stream" : status.error_message();
}

}  // namespace

// One Watch call; deletes itself when it has ended.
class WorkerWatch::Stream final : public grpc::ClientReadReactor<v1::StatusReport> {
 public:
  Stream(WorkerWatch* watch, std::string address, const std::shared_ptr<grpc::Channel>& channel)
      : watch_(watch), address_(std::move(address)), stub_(v1::WorkerStatus::NewStub(channel)) {}

  void Start() {
    stub_->async()->Watch(&context_, &request_, this);
    StartRead(&report_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }
  // A new stream finds out whether the worker comes back.
  void GiveUp() {
    given_up_ = true;
    Cancel();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    watch_->OnReport(address_, FromProto(report_));
    StartRead(&report_);
  }
  // What the stream holds of gRPC is given back before the watch hears of the end: after that the
  // watch, its channels and the process may go. And before that the watch must not reach it.
  void OnDone(const grpc::Status& status) override {
    WorkerWatch* const watch = watch_;
    const std::string address = address_;
    const std::string reason = absl::StrCat("lost: ", WhyEnded(status, given_up_));
    watch->Disown(address);
    delete this;
    watch->OnStreamEnd(address, reason);
  }

 private:
  WorkerWatch* const watch_;
  const std::string address_;
  const std::unique_ptr<v1::WorkerStatus::Stub> stub_;
  grpc::ClientContext context_;
  const v1::WatchRequest request_;
  std::atomic<bool> given_up_ = false;
  v1::StatusReport report_;
};

WorkerWatch::WorkerWatch(WorkerDirectory* directory,
                         std::map<std::string, std::shared_ptr<grpc::Channel>> channels,
                         std::function<void()> on_change)
    : directory_(directory), on_change_(std::move(on_change)) {
  for (auto& [address, channel] : channels) workers_[address] = {.channel = std::move(channel)};
  thread_ = std::thread([this] { Run(); });
}

WorkerWatch::~WorkerWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  std::unique_lock lock(mutex_);
  for (auto& [address, worker] : workers_) {
    if (worker.stream != nullptr) worker.stream->Cancel();
  }
  changed_.wait(lock, [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& entry) { return !entry.second.open; });
  });
}

void WorkerWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = now + kTick;
    for (auto& [address, worker] : workers_) {
      if (!worker.open && worker.next_try <= now) {
        worker.open = true;
        worker.stream = new Stream(this, address, worker.channel);  // See OnDone.
        worker.stream->Start();
      } else if (!worker.open) {
        next = std::min(next, worker.next_try);
      } else if (worker.stream != nullptr && directory_->IsSilent(address, now)) {
        worker.stream->GiveUp();
      }
    }
    lock.unlock();
    on_change_();
    lock.lock();
    changed_.wait_until(lock, next, [this] { return stopping_; });
  }
}

void WorkerWatch::OnReport(const std::string& address, const WorkerReport& report) {
  {
    std::lock_guard lock(mutex_);
    workers_[address].pause = std::chrono::milliseconds(0);
  }
  directory_->OnReport(address, report, Clock::now());
  on_change_();
}

void WorkerWatch::Disown(const std::string& address) {
  std::lock_guard lock(mutex_);
  workers_[address].stream = nullptr;
}

void WorkerWatch::OnStreamEnd(const std::string& address, const std::string& reason) {
  directory_->OnLost(address, reason);
  on_change_();
  std::lock_guard lock(mutex_);
  Worker& worker = workers_[address];
  if (worker.pause.count() == 0) {
    spdlog::warn("msg=\"worker lost\" worker={} reason={}", address, LogText(reason));
  }
  worker.pause = std::clamp(worker.pause * 2, kFirstPause, kLongestPause);
  worker.next_try = Clock::now() + worker.pause;
  worker.open = false;
  changed_.notify_all();
}

}  // namespace baton
