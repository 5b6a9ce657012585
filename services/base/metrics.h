// A process' Prometheus registry and its HTTP endpoint (GET /metrics on a port of its own). Each
// service lists its series in <service>_metrics.h. Series are thread-safe; families are added at
// start by main.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
class Registry;
}  // namespace prometheus

namespace baton {

struct MetricName {
  std::string name;  // Without the prefix "baton_".
  std::string help;
  prometheus::Labels labels;
};

class Metrics {
 public:
  // Every series carries role=`role`.
  explicit Metrics(const std::string& role);
  ~Metrics();

  // Names may repeat with different labels.
  prometheus::Counter& AddCounter(const MetricName& name);
  prometheus::Gauge& AddGauge(const MetricName& name);
  prometheus::Histogram& AddHistogram(const MetricName& name, std::vector<double> buckets);

  // Serves on `listen` (host:port; port 0 picks one). Returns the port, or Unavailable. An empty
  // `listen` is no endpoint and returns 0.
  absl::StatusOr<int> Serve(const std::string& listen);

 private:
  const std::string role_;
  // Shared because the exposer keeps a weak_ptr.
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string listen_;  // As Serve was told, and
  int port_ = 0;        // what it listens on.
};

// Upper bounds in seconds.
std::vector<double> LatencyBuckets();
std::vector<double> StepBuckets();

}  // namespace baton
