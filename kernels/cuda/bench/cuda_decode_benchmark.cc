#include "kernels/cuda/bench/cuda_decode_benchmark.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/log.h"
#include "kernels/cuda/bench/bench_rows.h"
#include "kernels/cuda/bench/decode_bench.h"
#include "kernels/cuda/bench/stream_bench.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/decode/decode_geometry.h"
#include "kernels/cuda/decode/decode_trace.h"
#include "kernels/models/north_geometry.h"

namespace baton::cuda {
namespace {

constexpr uint64_t kStreamBytes = 8ull << 30;
constexpr int kStreamRuns = 5;
constexpr int kStreamChunks = 3;  // In flight a worker, 16 KiB each: the decode kernel's own depth.

class CudaDecodeBenchmark : public DecodeBenchmark {
 public:
  CudaDecodeBenchmark(std::string device, double stream, std::unique_ptr<DecodeBench> bench)
      : device_(std::move(device)), stream_bytes_per_second_(stream), bench_(std::move(bench)) {}

  std::string device() const override { return device_; }
  uint64_t weight_bytes() const override { return bench_->weight_bytes(); }
  double stream_bytes_per_second() const override { return stream_bytes_per_second_; }
  absl::StatusOr<DecodeMeasurement> Measure(const DecodePoint& point,
                                            std::string* trace_json) override {
    return bench_->Measure(point, DecodeTuning{}, trace_json);
  }

 private:
  const std::string device_;
  const double stream_bytes_per_second_;
  const std::unique_ptr<DecodeBench> bench_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DecodeBenchmark>> MakeCudaDecodeBenchmark(
    const DecodeBenchmarkOptions& options) {
  BATON_RETURN_IF_ERROR(CheckTraceBuilt(options.trace));
  BATON_RETURN_IF_ERROR(CheckCudaDevice());
  const ModelConfig config = options.checkpoint != nullptr ? options.checkpoint->config()
                                                           : NorthMiniCodeGeometry(options.layers);
  cudaDeviceProp properties = {};
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, 0));
  BATON_RETURN_IF_ERROR(CheckDecodeGeometry(config, properties.multiProcessorCount));
  BATON_ASSIGN_OR_RETURN(const double stream,
                         MeasureStreamBandwidth(kStreamBytes, kStreamRuns, kStreamChunks));
  uint64_t arena_bytes = 0;
  for (const DecodePoint& point : options.points) {
    arena_bytes = std::max(arena_bytes, BenchLayout(config, point).total_bytes());
  }
  spdlog::info("msg=\"making weights\" synthetic={} arena_mib={}", options.checkpoint == nullptr,
               arena_bytes >> 20);
  BATON_ASSIGN_OR_RETURN(
      auto bench,
      DecodeBench::Create(config,
                          options.checkpoint == nullptr ? nullptr : &options.checkpoint->weights(),
                          0, arena_bytes));
  return std::make_unique<CudaDecodeBenchmark>(properties.name, stream, std::move(bench));
}

}  // namespace baton::cuda
