#include "services/client/bench_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

std::string Context(const DecodePoint& point) {
  return point.contexts.empty() ? absl::StrCat(point.context) : "ragged";
}

std::string Routing(const DecodePoint& point) {
  return point.forced_experts == 0 ? "model" : absl::StrCat("of ", point.forced_experts);
}

double BytesPerSecond(const DecodeMeasurement& measured) {
  return measured.bytes() / (measured.step_ms_mean * 1e-3);
}

}  // namespace

std::string BenchTableHead() {
  return absl::StrFormat("%5s %8s %8s %9s %9s %9s %9s %9s %7s %8s %7s %8s", "batch", "context",
                         "routing", "tok/s", "ms/step", "p99", "kernel", "weight GB", "KV GB",
                         "experts", "of 4.8T", "of stream");
}

std::string BenchTableLine(const DecodePoint& point, const DecodeMeasurement& measured,
                           double stream) {
  const double rate = BytesPerSecond(measured);
  return absl::StrFormat("%5d %8s %8s %9.1f %9.4f %9.4f %9.4f %9.3f %7.3f %8.1f %6.1f%% %8.1f%%",
                         point.batch, Context(point), Routing(point), measured.tokens_per_second,
                         measured.step_ms_median, measured.step_ms_p99, measured.device_ms_median,
                         measured.weight_bytes * 1e-9, measured.kv_bytes * 1e-9,
                         measured.distinct_experts, rate / kDeviceBytesPerSecond * 100,
                         rate / stream * 100);
}

std::string BenchJsonLine(const DecodePoint& point, const DecodeMeasurement& measured,
                          double stream) {
  const double rate = BytesPerSecond(measured);
  nlohmann::ordered_json json = {{"batch", point.batch},
                                 {"context", point.context},
                                 {"contexts", point.contexts},
                                 {"steps", point.steps},
                                 {"routing_pool", point.forced_experts},
                                 {"tokens_per_second", measured.tokens_per_second},
                                 {"step_ms_mean", measured.step_ms_mean},
                                 {"step_ms_median", measured.step_ms_median},
                                 {"step_ms_p99", measured.step_ms_p99},
                                 {"kernel_ms_median", measured.device_ms_median},
                                 {"first_after_idle_ms", measured.first_after_idle_ms},
                                 {"weight_bytes", measured.weight_bytes},
                                 {"kv_bytes", measured.kv_bytes},
                                 {"distinct_experts", measured.distinct_experts},
                                 {"bytes_per_second", rate},
                                 {"stream_bytes_per_second", stream},
                                 {"share_of_device", rate / kDeviceBytesPerSecond},
                                 {"share_of_stream", rate / stream},
                                 {"waits",
                                  {{"memory", measured.wait_memory},
                                   {"routing", measured.wait_routing},
                                   {"join_and_norm", measured.join_and_norm},
                                   {"other", measured.wait_other}}}};
  return json.dump();
}

std::string PrefillTableHead() {
  return absl::StrFormat("%8s %8s %10s %10s %10s %10s %9s %8s", "prompt", "prompts", "ms", "best",
                         "estimated", "tokens/s", "TFLOP/s", "of 790T");
}

std::string PrefillTableLine(const PrefillPoint& point, const PrefillMeasurement& measured) {
  const double rate = measured.operations() / measured.seconds_median;
  return absl::StrFormat("%8d %8d %10.3f %10.3f %10.3f %10.0f %9.0f %7.1f%%", point.length,
                         point.count, measured.seconds_median * 1e3, measured.seconds_best * 1e3,
                         measured.seconds_estimated * 1e3, measured.tokens_per_second(),
                         rate * 1e-12, rate / kDeviceMatrixRate * 100);
}

std::string PrefillStageLines(const PrefillMeasurement& measured) {
  double total = 0;
  for (const PrefillStageTime& stage : measured.stages) total += stage.seconds;
  std::string text;
  for (const PrefillStageTime& stage : measured.stages) {
    absl::StrAppendFormat(&text, "         %-10s %9.3f ms %5.1f%%\n", stage.name,
                          stage.seconds * 1e3, total > 0 ? stage.seconds / total * 100 : 0);
  }
  return text;
}

std::string PrefillJsonLine(const PrefillPoint& point, const PrefillMeasurement& measured) {
  const double rate = measured.operations() / measured.seconds_median;
  nlohmann::ordered_json json = {{"prompt_tokens", point.length},
                                 {"prompts", point.count},
                                 {"ms_median", measured.seconds_median * 1e3},
                                 {"ms_best", measured.seconds_best * 1e3},
                                 {"ms_estimated", measured.seconds_estimated * 1e3},
                                 {"tokens_per_second", measured.tokens_per_second()},
                                 {"matrix_operations", measured.matrix_operations},
                                 {"attention_operations", measured.attention_operations},
                                 {"operations_per_second", rate},
                                 {"share_of_matrix_rate", rate / kDeviceMatrixRate}};
  for (const PrefillStageTime& stage : measured.stages) {
    json["stage_ms"][stage.name] = stage.seconds * 1e3;
  }
  return json.dump();
}

}  // namespace baton
