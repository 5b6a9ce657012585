// Every series of the prefill worker: name, help and labels stand here and nowhere else.
#pragma once

#include <vector>

#include "services/base/metrics.h"

namespace baton {

struct PrefillMetrics {
  // Seconds: 10 us to 100 ms.
  static std::vector<double> ExposedBuckets() {
    return {1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 0.1};
  }

  explicit PrefillMetrics(Metrics& metrics)
      : requests(metrics.AddCounter({"requests_total", "Prefill calls accepted."})),
        rejected(metrics.AddCounter({"requests_rejected_total", "Prefill calls refused."})),
        failed(metrics.AddCounter({"requests_failed_total", "Prefill calls that failed."})),
        aborted(
            metrics.AddCounter({"requests_aborted_total", "Prefill calls cancelled or revoked."})),
        prompt_tokens(metrics.AddCounter({"prompt_tokens_total", "Prompt tokens computed."})),
        chunks(metrics.AddCounter({"prefill_chunks_total", "Chunks computed."})),
        packed_prompts(metrics.AddCounter(
            {"packed_prompts_total", "Prompts computed within another one's chunk."})),
        chunk_seconds(metrics.AddHistogram({"prefill_chunk_seconds", "Time of one chunk."},
                                           LatencyBuckets())),
        queue_seconds(metrics.AddHistogram({"request_queue_seconds", "Waiting for the engine."},
                                           LatencyBuckets())),
        compute_seconds(metrics.AddHistogram({"request_prefill_seconds", "Computing one prompt."},
                                             LatencyBuckets())),
        running(metrics.AddGauge({"num_requests_running", "Prompts being computed."})),
        waiting(metrics.AddGauge({"num_requests_waiting", "Prompts that wait."})),
        kv_bytes(metrics.AddCounter(
            {"kv_handover_bytes_total", "K/V bytes written into owners' pages."})),
        kv_pushed_bytes(metrics.AddCounter({"kv_pushed_bytes_total",
                                            "Of these: copied to arenas on another GPU; others are "
                                            "written in place."})),
        kv_pulled_bytes(metrics.AddCounter(
            {"kv_pulled_bytes_total", "K/V bytes of cached prefixes copied from another GPU."})),
        kv_push_copies(metrics.AddCounter(
            {"kv_push_copies_total", "Copies that K/V took to arenas on another GPU."})),
        kv_scattered_bytes(metrics.AddCounter(
            {"kv_push_scattered_bytes_total",
             "K/V bytes copied by a kernel, as their pages lay too far apart for a copy engine."})),
        kv_push_seconds(metrics.AddCounter(
            {"kv_push_seconds_total", "Time in which pushes ran, most of it under compute."})),
        kv_exposed_seconds(metrics.AddHistogram(
            {"kv_push_exposed_seconds", "By which a chunk's pushes outlasted its compute."},
            ExposedBuckets())),
        leases_revoked(metrics.AddCounter({"kv_leases_revoked_total", "Leases revoked."})),
        arenas(metrics.AddGauge({"kv_arenas_attached", "Arenas mapped."})),
        self_test_write(metrics.AddGauge({"kv_self_test_write_bytes_per_second",
                                          "Writing to the arena that was attached last."})),
        self_test_read(
            metrics.AddGauge({"kv_self_test_read_bytes_per_second", "Reading from the same."})),
        peer_device(metrics.AddGauge(
            {"kv_peer_device", "1: that arena lies on another GPU and is pushed to."})) {}

  prometheus::Counter& requests;
  prometheus::Counter& rejected;
  prometheus::Counter& failed;
  prometheus::Counter& aborted;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& chunks;
  prometheus::Counter& packed_prompts;
  prometheus::Histogram& chunk_seconds;
  prometheus::Histogram& queue_seconds;
  prometheus::Histogram& compute_seconds;
  prometheus::Gauge& running;
  prometheus::Gauge& waiting;
  prometheus::Counter& kv_bytes;
  prometheus::Counter& kv_pushed_bytes;
  prometheus::Counter& kv_pulled_bytes;
  prometheus::Counter& kv_push_copies;
  prometheus::Counter& kv_scattered_bytes;
  prometheus::Counter& kv_push_seconds;
  prometheus::Histogram& kv_exposed_seconds;
  prometheus::Counter& leases_revoked;
  prometheus::Gauge& arenas;
  prometheus::Gauge& self_test_write;
  prometheus::Gauge& self_test_read;
  prometheus::Gauge& peer_device;
};

}  // namespace baton
