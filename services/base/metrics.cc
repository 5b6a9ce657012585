#include "services/base/metrics.h"

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/knock.h"

namespace baton {
namespace {

constexpr std::chrono::milliseconds kKnockInterval(5);

}  // namespace

Metrics::Metrics(const std::string& role)
    : role_(role), registry_(std::make_shared<prometheus::Registry>()) {}

// The endpoint's thread looks whether it should end every two seconds, and when somebody connects.
Metrics::~Metrics() {
  if (exposer_ == nullptr) return;
  std::atomic<bool> ended = false;
  std::thread knocker([&] {
    while (!ended) {
      Knock(listen_, port_);
      std::this_thread::sleep_for(kKnockInterval);
    }
  });
  exposer_.reset();
  ended = true;
  knocker.join();
}

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
    listen_ = listen;
    port_ = exposer_->GetListeningPorts().at(0);
    return port_;
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
