#include "kernels/cuda/bench/cuda_baseline_benchmark.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/log.h"
#include "kernels/cuda/baseline/baseline_decode.h"
#include "kernels/cuda/bench/bench_rows.h"
#include "kernels/cuda/bench/noise_fill.h"
#include "kernels/cuda/bench/step_intervals.h"
#include "kernels/cuda/bench/stream_bench.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/models/north_geometry.h"

namespace baton::cuda {
namespace {

constexpr uint64_t kStreamBytes = 8ull << 30;
constexpr int kStreamRuns = 5;
constexpr int kStreamChunks = 3;

double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// One event a step; owned here because a failed measurement must not leak them.
class StepEvents {
 public:
  ~StepEvents() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  absl::Status Record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    BATON_RETURN_IF_CUDA_ERROR(cudaEventCreate(&event));
    events_.push_back(event);
    BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(event, stream));
    return absl::OkStatus();
  }
  // Milliseconds between neighbours, from the event `first` on.
  absl::StatusOr<std::vector<double>> Intervals(size_t first) const {
    std::vector<double> intervals;
    for (size_t i = first + 1; i < events_.size(); ++i) {
      float ms = 0;
      BATON_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&ms, events_[i - 1], events_[i]));
      intervals.push_back(ms);
    }
    return intervals;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

class CudaBaselineBenchmark : public DecodeBenchmark {
 public:
  CudaBaselineBenchmark(ModelConfig config, std::string device, double stream)
      : config_(std::move(config)), device_(std::move(device)), stream_bytes_per_second_(stream) {}

  absl::Status Prepare(const DecodeBenchmarkOptions& options) {
    uint64_t arena_bytes = 0;
    for (const DecodePoint& point : options.points) {
      arena_bytes = std::max(arena_bytes, BenchLayout(config_, point).total_bytes());
    }
    if (options.checkpoint != nullptr) {
      BATON_ASSIGN_OR_RETURN(
          weights_, prefill::PrefillWeights::Upload(config_, options.checkpoint->weights()));
    } else {
      BATON_ASSIGN_OR_RETURN(weights_, prefill::PrefillWeights::Synthetic(config_, 1));
    }
    BATON_ASSIGN_OR_RETURN(arena_, prefill::DeviceMemory::Allocate(arena_bytes));
    return absl::OkStatus();
  }

  std::string device() const override { return device_; }
  uint64_t weight_bytes() const override { return weights_->size_bytes(); }
  double stream_bytes_per_second() const override { return stream_bytes_per_second_; }
  absl::StatusOr<DecodeMeasurement> Measure(const DecodePoint& point,
                                            std::string* trace_json) override;

 private:
  const ModelConfig config_;
  const std::string device_;
  const double stream_bytes_per_second_;
  std::unique_ptr<prefill::PrefillWeights> weights_;
  prefill::DeviceMemory arena_;
};

BaselineBatch BatchOf(const ModelConfig& config, const DecodePoint& point, void* arena) {
  BaselineBatch batch{.layout = BenchLayout(config, point),
                      .kv_base = arena,
                      .max_steps = TotalSteps(point),
                      .forced_experts = std::min(point.forced_experts, config.expert_count)};
  for (RowJoin& row : BenchRows(config, point)) {
    batch.rows.push_back(
        {.token = row.token, .position = row.position, .pages = std::move(row.pages)});
  }
  return batch;
}

absl::StatusOr<DecodeMeasurement> CudaBaselineBenchmark::Measure(const DecodePoint& point,
                                                                 std::string* trace_json) {
  if (trace_json != nullptr)
    return absl::InvalidArgumentError("the decode baseline keeps no trace");
  BATON_ASSIGN_OR_RETURN(
      const auto decode,
      BaselineDecode::Create(config_, *weights_, BatchOf(config_, point, arena_.data())));
  // Making it ran a step, which wrote keys and values.
  BATON_RETURN_IF_ERROR(FillNoise(arena_.data(), arena_.size_bytes()));
  const int steps = point.warm_up_steps + point.steps;
  StepEvents events;
  for (int step = 0; step < steps; ++step) {
    BATON_RETURN_IF_ERROR(decode->Step());
    BATON_RETURN_IF_ERROR(events.Record(decode->stream()));
  }
  DecodeMeasurement m;
  BATON_ASSIGN_OR_RETURN(m.sampled, decode->ReadHistory(steps));
  BATON_ASSIGN_OR_RETURN(m.distinct_experts, decode->ReadDistinctExperts(steps));
  BATON_ASSIGN_OR_RETURN(const std::vector<double> intervals,
                         events.Intervals(point.warm_up_steps));
  std::vector<int> contexts = ContextsOf(point);
  SetStepTimes(intervals, contexts.size(), m);
  m.device_ms_median = m.step_ms_median;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto idle = std::chrono::steady_clock::now();
  BATON_RETURN_IF_ERROR(decode->Step());
  BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(decode->stream()));
  m.first_after_idle_ms = MillisecondsSince(idle);
  m.weight_bytes = WeightBytesRead(config_, m.distinct_experts);
  for (int& context : contexts) context += point.warm_up_steps + point.steps / 2;
  m.kv_bytes = KvBytesRead(config_, contexts);
  return m;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DecodeBenchmark>> MakeCudaBaselineBenchmark(
    const DecodeBenchmarkOptions& options) {
  BATON_RETURN_IF_ERROR(CheckCudaDevice());
  cudaDeviceProp properties = {};
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, 0));
  BATON_ASSIGN_OR_RETURN(const double stream,
                         MeasureStreamBandwidth(kStreamBytes, kStreamRuns, kStreamChunks));
  spdlog::info("msg=\"making weights of the baseline\" synthetic={}",
               options.checkpoint == nullptr);
  auto benchmark = std::make_unique<CudaBaselineBenchmark>(
      options.checkpoint != nullptr ? options.checkpoint->config()
                                    : NorthMiniCodeGeometry(options.layers),
      properties.name, stream);
  BATON_RETURN_IF_ERROR(benchmark->Prepare(options));
  return benchmark;
}

}  // namespace baton::cuda
