#include "kernels/cuda/bench/decode_bench.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/bench/bench_rows.h"
#include "kernels/cuda/bench/noise_fill.h"
#include "kernels/cuda/bench/step_intervals.h"
#include "kernels/cuda/cuda_check.h"

namespace baton::cuda {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t Digest(uint64_t digest, const StepOutput& output) {
  constexpr uint64_t kFnvPrime = 0x100000001b3ull;
  for (const RowResult& row : output.rows) {
    digest = (digest ^ static_cast<uint32_t>(row.sampled.token)) * kFnvPrime;
    digest = (digest ^ std::bit_cast<uint32_t>(row.sampled.logprob)) * kFnvPrime;
  }
  return digest;
}

// Of the measured steps.
struct StepTimes {
  std::vector<double> host_ms, device_ms;
  double distinct = 0;

  void Add(double host_seconds, const StepOutput& output) {
    host_ms.push_back(host_seconds * 1e3);
    if (output.device_seconds > 0) device_ms.push_back(output.device_seconds * 1e3);
    distinct += output.distinct_experts;
  }
  void Summarize(int rows, DecodeMeasurement* m) const {
    SetStepTimes(host_ms, rows, *m);
    m->device_ms_median = Quantile(device_ms, 0.5);
    m->distinct_experts = distinct / host_ms.size();
  }
};

void SetShares(const DecodeCycles& before, const DecodeCycles& after, DecodeMeasurement* m) {
  const double cycles = std::max<double>(1, after.total - before.total);
  m->wait_memory = (after.memory - before.memory) / cycles;
  m->wait_routing = (after.routing - before.routing) / cycles;
  m->join_and_norm = (after.join_and_norm - before.join_and_norm) / cycles;
  m->wait_other = (after.other - before.other) / cycles;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DecodeBench>> DecodeBench::Create(
    const ModelConfig& config, const WeightSet* checkpoint_weights, int worker_count,
    uint64_t arena_bytes) {
  std::unique_ptr<DecodeBench> bench(new DecodeBench(config));
  if (worker_count == 0) {
    int device = 0;
    BATON_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
    BATON_RETURN_IF_CUDA_ERROR(
        cudaDeviceGetAttribute(&worker_count, cudaDevAttrMultiProcessorCount, device));
  }
  BATON_ASSIGN_OR_RETURN(bench->weights_, checkpoint_weights == nullptr
                                              ? PackedWeights::Synthetic(config, 1)
                                              : PackedWeights::Load(config, *checkpoint_weights,
                                                                    worker_count, nullptr));
  bench->graph_ = std::make_unique<TaskGraph>(TaskGraph::Build(config, worker_count));
  bench->arena_bytes_ = arena_bytes;
  BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&bench->arena_, arena_bytes));
  return bench;
}

DecodeBench::~DecodeBench() { cudaFree(arena_); }

absl::StatusOr<std::unique_ptr<CudaDecodeRunner>> DecodeBench::MakeRunner(
    const DecodePoint& point, const DecodeTuning& tuning) const {
  const std::vector<int> contexts = ContextsOf(point);
  DecodeRunnerOptions options{
      .max_rows = std::max(8, (static_cast<int>(contexts.size()) + 7) / 8 * 8),
      .layout = BenchLayout(config_, point),
      .kv_base = arena_,
      .max_context_tokens =
          *std::max_element(contexts.begin(), contexts.end()) + TotalSteps(point)};
  if (options.layout.total_bytes() > arena_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("KV arena: wanted ",
                                                     options.layout.total_bytes() >> 20,
                                                     " MiB, found ", arena_bytes_ >> 20));
  }
  return CudaDecodeRunner::Create(config_, *weights_, *graph_, options, tuning);
}

absl::StatusOr<DecodeMeasurement> DecodeBench::Measure(const DecodePoint& point,
                                                       const DecodeTuning& tuning,
                                                       std::string* trace_json) {
  // The pool is every fifth expert, round and round: see DrawnExpertKey.
  if (point.forced_experts > 0 && point.forced_experts < config_.expert_count &&
      config_.expert_count % 5 == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "routing from ", point.forced_experts, " experts: wanted a model whose number ",
        "of experts 5 does not divide, found ", config_.expert_count));
  }
  DecodeTuning used = tuning;
  used.forced_experts = std::min(point.forced_experts, config_.expert_count);
  used.trace = trace_json != nullptr;
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<CudaDecodeRunner> runner, MakeRunner(point, used));
  // What an earlier point appended must not matter.
  BATON_RETURN_IF_ERROR(FillNoise(arena_, arena_bytes_));
  StepInput first;
  first.joins = BenchRows(config_, point);
  BATON_RETURN_IF_ERROR(runner->Submit(first));
  StepTimes times;
  DecodeMeasurement m;
  DecodeCycles before;
  double last = 0;
  for (int step = 0; step < point.warm_up_steps + point.steps; ++step) {
    BATON_RETURN_IF_ERROR(runner->Submit({}));
    if (step == point.warm_up_steps) {
      BATON_ASSIGN_OR_RETURN(before, runner->ReadCycles());
    }
    BATON_ASSIGN_OR_RETURN(const StepOutput output, runner->Await());
    const double now = Seconds();
    m.digest = Digest(m.digest, output);
    for (const RowResult& row : output.rows) m.sampled.push_back(row.sampled);
    // To read the cycles waited for this step and the next: what lies between their results is
    // no step's time.
    if (step > point.warm_up_steps + 1) times.Add(now - last, output);
    last = now;
  }
  BATON_RETURN_IF_ERROR(runner->Await().status());
  BATON_ASSIGN_OR_RETURN(const DecodeCycles after, runner->ReadCycles());
  SetShares(before, after, &m);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double idle_begin = Seconds();
  BATON_RETURN_IF_ERROR(runner->Submit({}));
  BATON_RETURN_IF_ERROR(runner->Await().status());
  m.first_after_idle_ms = (Seconds() - idle_begin) * 1e3;
  std::vector<int> contexts = ContextsOf(point);
  times.Summarize(static_cast<int>(contexts.size()), &m);
  m.weight_bytes = WeightBytesRead(config_, m.distinct_experts);
  for (int& context : contexts) context += point.warm_up_steps + point.steps / 2;
  m.kv_bytes = KvBytesRead(config_, contexts);
  if (trace_json != nullptr) {
    BATON_ASSIGN_OR_RETURN(*trace_json, runner->TraceJson());
  }
  return m;
}

}  // namespace baton::cuda
