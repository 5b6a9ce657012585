#include "services/client/serve_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string LatencyLine(const std::string& name, const LatencySummary& latency) {
  return absl::StrFormat("%-30s %9d %10.2f %10.2f %10.2f %10.2f\n", name, latency.count,
                         latency.mean, latency.p50, latency.p99, latency.max);
}

void AddLatency(const std::string& name, const LatencySummary& latency, Json* json) {
  (*json)["mean_" + name + "_ms"] = latency.mean;
  (*json)["median_" + name + "_ms"] = latency.p50;
  (*json)["p99_" + name + "_ms"] = latency.p99;
  (*json)["max_" + name + "_ms"] = latency.max;
}

}  // namespace

std::string ServeTable(const ServeReport& report) {
  const LoadSummary& requests = report.requests;
  std::string text = absl::StrCat(report.load, "\n");
  absl::StrAppendFormat(
      &text, "%d completed, %d failed in %.2f s: %.2f requests/s, %.1f output tokens/s, ",
      requests.completed, requests.failed, requests.seconds, requests.requests_per_second(),
      requests.output_tokens_per_second());
  absl::StrAppendFormat(&text, "%d prompt tokens", requests.prompt_tokens);
  if (requests.goodput)
    absl::StrAppendFormat(&text, "; goodput %.2f requests/s", *requests.goodput);
  absl::StrAppendFormat(&text, "\n%-30s %9s %10s %10s %10s %10s\n", "milliseconds", "samples",
                        "mean", "p50", "p99", "max");
  text += LatencyLine("time to first token", requests.first_token);
  text += LatencyLine("inter-token latency", requests.inter_token);
  text += LatencyLine("whole request", requests.whole);
  if (report.steady) {
    text += LatencyLine(absl::StrCat("inter-token of ", report.steady->row_count, " steady, alone"),
                        report.steady->alone);
    text += LatencyLine("  and beside this load", report.steady->beside);
    if (report.steady->alone.count > 0) {
      absl::StrAppendFormat(&text, "  p99 beside the load over p99 alone: %.2f\n",
                            report.steady->p99_ratio());
    }
    if (!report.steady->failure.ok()) {
      absl::StrAppend(&text, "  a steady row failed: ", report.steady->failure.ToString(), "\n");
    }
  }
  if (report.late_count > 0) {
    absl::StrAppend(&text, report.late_count, " requests were sent late: no connection was free\n");
  }
  if (requests.failed > 0) {
    absl::StrAppend(&text, "first failure: ", requests.first_failure.ToString(), "\n");
  }
  return text;
}

std::string ServeJson(const ServeReport& report) {
  const LoadSummary& requests = report.requests;
  Json json = {{"load", report.load},
               {"completed", requests.completed},
               {"failed", requests.failed},
               {"sent_late", report.late_count},
               {"duration", requests.seconds},
               {"total_input_tokens", requests.prompt_tokens},
               {"total_output_tokens", requests.output_tokens},
               {"request_throughput", requests.requests_per_second()},
               {"output_throughput", requests.output_tokens_per_second()}};
  if (requests.goodput) json["request_goodput"] = *requests.goodput;
  AddLatency("ttft", requests.first_token, &json);
  AddLatency("itl", requests.inter_token, &json);
  AddLatency("e2el", requests.whole, &json);
  if (report.steady) {
    Json alone, beside;
    AddLatency("itl", report.steady->alone, &alone);
    AddLatency("itl", report.steady->beside, &beside);
    json["steady"] = {
        {"rows", report.steady->row_count},
        {"alone", alone},
        {"beside_load", beside},
        {"p99_ratio", report.steady->p99_ratio()},
        {"failure", report.steady->failure.ok() ? "" : report.steady->failure.ToString()}};
  }
  if (requests.failed > 0) json["first_failure"] = requests.first_failure.ToString();
  return json.dump();
}

}  // namespace baton
