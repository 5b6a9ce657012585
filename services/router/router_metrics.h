// Every series of the router: name, help and labels stand here and nowhere else.
#pragma once

#include <string>

#include "services/base/metrics.h"

namespace baton {

struct RouterMetrics {
  explicit RouterMetrics(Metrics& metrics)
      : in_flight(metrics.AddGauge({"requests_in_flight", "Generate calls in flight."})),
        retries(metrics.AddCounter(
            {"request_retries_total", "Requests sent to another decode worker."})),
        prompt_tokens(metrics.AddCounter(
            {"prompt_tokens_total", "Prompt tokens of requests, refused later or not."})),
        generation_tokens(
            metrics.AddCounter({"generation_tokens_total", "Tokens sent to clients."})),
        time_to_first_token_seconds(metrics.AddHistogram(
            {"time_to_first_token_seconds", "From arrival to the first token."}, LatencyBuckets())),
        request_seconds(metrics.AddHistogram(
            {"e2e_request_latency_seconds", "From arrival to the end."}, LatencyBuckets())),
        tokenize_seconds(metrics.AddHistogram(
            {"tokenize_seconds", "Checking, rendering and tokenizing one prompt."},
            LatencyBuckets())),
        decode_workers_ready(WorkersReady(metrics, "decode")),
        prefill_workers_ready(WorkersReady(metrics, "prefill")),
        metrics_(metrics) {}

  // Counts one finished Generate call by its gRPC code's name.
  void CountRequest(const std::string& code) {
    metrics_.AddCounter({"requests_total", "Generate calls by status code.", {{"code", code}}})
        .Increment();
  }

  prometheus::Gauge& in_flight;
  prometheus::Counter& retries;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& generation_tokens;
  prometheus::Histogram& time_to_first_token_seconds;
  prometheus::Histogram& request_seconds;
  prometheus::Histogram& tokenize_seconds;
  prometheus::Gauge& decode_workers_ready;
  prometheus::Gauge& prefill_workers_ready;

 private:
  static prometheus::Gauge& WorkersReady(Metrics& metrics, const char* worker_role) {
    return metrics.AddGauge(
        {"workers_ready", "Workers that can take requests.", {{"worker_role", worker_role}}});
  }

  Metrics& metrics_;
};

}  // namespace baton
