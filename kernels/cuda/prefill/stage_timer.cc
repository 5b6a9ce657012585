#include "kernels/cuda/prefill/stage_timer.h"

#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {

const char* StageName(Stage stage) {
  static constexpr const char* kNames[kStageCount] = {"embed",   "qkv",   "scatter", "attention",
                                                      "output",  "route", "gate_up", "down",
                                                      "combine", "head"};
  return kNames[static_cast<int>(stage)];
}

StageTimer::~StageTimer() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

absl::Status StageTimer::Record() {
  if (used_ == events_.size()) {
    cudaEvent_t event;
    BATON_PREFILL_CUDA(cudaEventCreate(&event));
    events_.push_back(event);
  }
  BATON_PREFILL_CUDA(cudaEventRecord(events_[used_++], stream_));
  return absl::OkStatus();
}

absl::Status StageTimer::Begin(cudaStream_t stream) {
  if (!enabled_) return absl::OkStatus();
  stream_ = stream;
  used_ = 0;
  stages_.clear();
  return Record();
}

absl::Status StageTimer::Mark(Stage stage) {
  if (!enabled_) return absl::OkStatus();
  stages_.push_back(stage);
  return Record();
}

absl::Status StageTimer::Collect() {
  if (!enabled_) return absl::OkStatus();
  for (size_t i = 0; i < stages_.size(); ++i) {
    float milliseconds = 0;
    BATON_PREFILL_CUDA(cudaEventElapsedTime(&milliseconds, events_[i], events_[i + 1]));
    seconds_[static_cast<int>(stages_[i])] += milliseconds * 1e-3;
  }
  return absl::OkStatus();
}

}  // namespace baton::prefill
