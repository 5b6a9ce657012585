#include "services/base/metrics.h"

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton {

Metrics::Metrics(const std::string& role)
    : role_(role), registry_(std::make_shared<prometheus::Registry>()) {}

Metrics::~Metrics() = default;

prometheus::Counter& Metrics::AddCounter(const MetricName& name) {
  return prometheus::BuildCounter()
      .Name("baton_" + name.name)
      .Help(name.help)
      .Labels({{"role", role_}})
      .Register(*registry_)
      .Add(name.labels);
}

prometheus::Gauge& Metrics::AddGauge(const MetricName& name) {
  return prometheus::BuildGauge()
      .Name("baton_" + name.name)
      .Help(name.help)
      .Labels({{"role", role_}})
      .Register(*registry_)
      .Add(name.labels);
}

prometheus::Histogram& Metrics::AddHistogram(const MetricName& name, std::vector<double> buckets) {
  return prometheus::BuildHistogram()
      .Name("baton_" + name.name)
      .Help(name.help)
      .Labels({{"role", role_}})
      .Register(*registry_)
      .Add(name.labels, std::move(buckets));
}

absl::StatusOr<int> Metrics::Serve(const std::string& listen) {
  if (listen.empty()) return 0;
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(listen, 1);
    exposer_->RegisterCollectable(registry_);
    return exposer_->GetListeningPorts().at(0);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", listen, ": ", error.what()));
  }
}

std::vector<double> LatencyBuckets() {
  return {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120};
}

std::vector<double> StepBuckets() {
  return {.001, .002, .003, .004, .005, .006, .008, .01, .0125, .015, .02,
          .025, .03,  .04,  .05,  .075, .1,   .2,   .5,  1,     2.5};
}

}  // namespace baton
