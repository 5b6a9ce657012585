// StageTimer: device time per kind of work within a chunk, from events between the launches. Off by
// default; costs a few microseconds per mark when on. One owner thread.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"

namespace baton::prefill {

enum class Stage {
  kEmbed,
  kQkv,
  kScatter,
  kAttention,
  kOutput,
  kRoute,
  kGateUp,
  kDown,
  kCombine,
  kHead,
};
inline constexpr int kStageCount = 10;
const char* StageName(Stage stage);

class StageTimer {
 public:
  explicit StageTimer(bool enabled) : enabled_(enabled) {}
  ~StageTimer();
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

  // Begins a chunk on `stream`; forgets the previous one.
  absl::Status Begin(cudaStream_t stream);
  // What was enqueued since the previous mark was work of `stage`.
  absl::Status Mark(Stage stage);
  // Adds the chunk's times, once the stream is idle.
  absl::Status Collect();

  const std::array<double, kStageCount>& seconds() const { return seconds_; }
  void Reset() { seconds_ = {}; }

 private:
  absl::Status Record();

  const bool enabled_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::vector<Stage> stages_;  // stages_[i] lies between events i and i + 1.
  size_t used_ = 0;            // Events of this chunk.
  std::array<double, kStageCount> seconds_ = {};
};

}  // namespace baton::prefill
