// Every series of the decode worker: name, help and labels stand here and nowhere else.
#pragma once

#include "kernels/kv/kv_arena.h"
#include "services/base/metrics.h"

namespace baton {

struct DecodeMetrics {
  explicit DecodeMetrics(Metrics& metrics)
      : requests(metrics.AddCounter({"requests_total", "Requests accepted."})),
        rejected(metrics.AddCounter({"requests_rejected_total", "Requests refused at admission."})),
        finished_stop(metrics.AddCounter(
            {"requests_finished_total", "Requests that ended, by reason.", {{"reason", "stop"}}})),
        finished_length(metrics.AddCounter({"requests_finished_total",
                                            "Requests that ended, by reason.",
                                            {{"reason", "length"}}})),
        finished_cancelled(metrics.AddCounter({"requests_finished_total",
                                               "Requests that ended, by reason.",
                                               {{"reason", "cancelled"}}})),
        finished_error(metrics.AddCounter(
            {"requests_finished_total", "Requests that ended, by reason.", {{"reason", "error"}}})),
        prompt_tokens(metrics.AddCounter({"prompt_tokens_total", "Prompt tokens prefilled."})),
        generation_tokens(metrics.AddCounter({"generation_tokens_total", "Tokens sampled."})),
        running(metrics.AddGauge({"num_requests_running", "Rows in the batch."})),
        waiting(metrics.AddGauge({"num_requests_waiting", "Requests waiting for pages or a row."})),
        batch_rows(metrics.AddHistogram({"batch_size_rows", "Rows per decode step."},
                                        {1, 2, 4, 8, 16, 24, 32, 48, 64})),
        step_seconds(
            metrics.AddHistogram({"decode_step_seconds", "Time of a decode step."}, StepBuckets())),
        distinct_experts(metrics.AddHistogram(
            {"decode_step_distinct_experts",
             "Experts that a decode step's rows chose, mean over the layers that have experts."},
            {2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128})),
        cycles(metrics.AddCounter(
            {"decode_cycles_total",
             "Cycles of the warps that multiply, in all blocks of decode's kernel."})),
        wait_memory_cycles(WaitCycles(metrics, "memory")),
        wait_routing_cycles(WaitCycles(metrics, "routing")),
        join_and_norm_cycles(WaitCycles(metrics, "join_and_norm")),
        wait_other_cycles(WaitCycles(metrics, "other")),
        steps_failed(metrics.AddCounter({"decode_steps_failed_total", "Steps that failed."})),
        time_to_first_token_seconds(metrics.AddHistogram(
            {"time_to_first_token_seconds", "From arrival here to the first token."},
            LatencyBuckets())),
        queue_seconds(metrics.AddHistogram(
            {"request_queue_seconds", "Waiting for pages and a row before prefill."},
            LatencyBuckets())),
        decode_seconds(metrics.AddHistogram(
            {"request_decode_seconds", "From the first token to the last."}, LatencyBuckets())),
        full_pages_free(Pages(metrics, "full", "free")),
        full_pages_used(Pages(metrics, "full", "used")),
        full_pages_quarantined(Pages(metrics, "full", "quarantined")),
        window_pages_free(Pages(metrics, "window", "free")),
        window_pages_used(Pages(metrics, "window", "used")),
        window_pages_quarantined(Pages(metrics, "window", "quarantined")),
        kv_usage_ratio(metrics.AddGauge({"kv_cache_usage_ratio", "Full pages in use, 0 to 1."})),
        handovers_in_flight(metrics.AddGauge({"kv_handovers_in_flight", "Prefills running."})),
        handover_seconds(metrics.AddHistogram(
            {"kv_handover_seconds", "From asking a prefill worker to its answer."},
            LatencyBuckets())),
        handover_bytes(metrics.AddCounter(
            {"kv_handover_bytes_total", "K/V bytes that prefill workers wrote here."})),
        handover_failures(
            metrics.AddCounter({"kv_handover_failures_total", "Prefill attempts that failed."})),
        leases_revoked(metrics.AddCounter({"kv_leases_revoked_total", "Leases revoked."})),
        attach_failures(
            metrics.AddCounter({"kv_attach_failures_total", "Arena attaches that failed."})),
        inline_prefills(metrics.AddCounter(
            {"inline_prefills_total", "Prompts that went through decode rows, token by token."})),
        inline_prefill_tokens(
            metrics.AddCounter({"inline_prefill_tokens_total", "Tokens of those prompts."})),
        self_prefills(metrics.AddCounter(
            {"self_prefills_total", "Prompts computed in this process while decode paused."})),
        self_prefill_seconds(metrics.AddHistogram(
            {"self_prefill_chunk_seconds", "Decode's pause for a chunk."}, LatencyBuckets())) {}

  void SetLoad(uint32_t running_count, uint32_t waiting_count) {
    running.Set(running_count);
    waiting.Set(waiting_count);
  }
  void SetPages(const KvArenaStats& stats) {
    const KvGroupStats& full = stats.groups[kFullGroup];
    const KvGroupStats& window = stats.groups[kWindowGroup];
    full_pages_free.Set(full.free);
    full_pages_used.Set(full.used() - full.quarantined);
    full_pages_quarantined.Set(full.quarantined);
    window_pages_free.Set(window.free);
    window_pages_used.Set(window.used() - window.quarantined);
    window_pages_quarantined.Set(window.quarantined);
    kv_usage_ratio.Set(full.page_count > 0 ? double(full.used()) / full.page_count : 0);
  }

  prometheus::Counter& requests;
  prometheus::Counter& rejected;
  prometheus::Counter& finished_stop;
  prometheus::Counter& finished_length;
  prometheus::Counter& finished_cancelled;
  prometheus::Counter& finished_error;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& generation_tokens;
  prometheus::Gauge& running;
  prometheus::Gauge& waiting;
  prometheus::Histogram& batch_rows;
  prometheus::Histogram& step_seconds;
  prometheus::Histogram& distinct_experts;
  prometheus::Counter& cycles;
  prometheus::Counter& wait_memory_cycles;
  prometheus::Counter& wait_routing_cycles;
  prometheus::Counter& join_and_norm_cycles;
  prometheus::Counter& wait_other_cycles;
  prometheus::Counter& steps_failed;
  prometheus::Histogram& time_to_first_token_seconds;
  prometheus::Histogram& queue_seconds;
  prometheus::Histogram& decode_seconds;
  prometheus::Gauge& full_pages_free;
  prometheus::Gauge& full_pages_used;
  prometheus::Gauge& full_pages_quarantined;
  prometheus::Gauge& window_pages_free;
  prometheus::Gauge& window_pages_used;
  prometheus::Gauge& window_pages_quarantined;
  prometheus::Gauge& kv_usage_ratio;
  prometheus::Gauge& handovers_in_flight;
  prometheus::Histogram& handover_seconds;
  prometheus::Counter& handover_bytes;
  prometheus::Counter& handover_failures;
  prometheus::Counter& leases_revoked;
  prometheus::Counter& attach_failures;
  prometheus::Counter& inline_prefills;
  prometheus::Counter& inline_prefill_tokens;
  prometheus::Counter& self_prefills;
  prometheus::Histogram& self_prefill_seconds;

 private:
  static prometheus::Counter& WaitCycles(Metrics& metrics, const char* reason) {
    return metrics.AddCounter({"decode_wait_cycles_total",
                               "Of decode_cycles_total: cycles of waiting, by for what; "
                               "join_and_norm: for a layer's input, until it is normalised.",
                               {{"reason", reason}}});
  }
  static prometheus::Gauge& Pages(Metrics& metrics, const char* group, const char* state) {
    return metrics.AddGauge(
        {"kv_pages", "Pages of the arena by state.", {{"group", group}, {"state", state}}});
  }
};

}  // namespace baton
