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
  return measured.bytes() / (measured.step_ms_median * 1e-3);
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
                                   {"join", measured.wait_join},
                                   {"other", measured.wait_other}}}};
  return json.dump();
}

}  // namespace baton
