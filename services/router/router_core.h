// RouterCore: what every call of the router's service shares. Owned by main; its members are
// thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <grpcpp/channel.h>

#include "absl/status/statusor.h"
#include "services/base/drain_gate.h"
#include "services/base/serial_executor.h"
#include "services/router/generation_plan.h"
#include "services/router/model_facts.h"
#include "services/router/model_text.h"
#include "services/router/router_metrics.h"
#include "services/router/worker_directory.h"

namespace baton {

struct RouterCoreOptions {
  std::unique_ptr<ModelText> text;
  ModelFacts facts;
  std::string model_name;
  std::map<std::string, std::shared_ptr<grpc::Channel>> decode_channels;  // By address.
  WorkerDirectory* directory = nullptr;                                   // Outlives the core.
  RouterMetrics* metrics = nullptr;                                       // Outlives the core.
  uint32_t max_in_flight = 1024;
  uint64_t seed = 0;  // Of tie breaks and of seeds drawn for requests without one.
};

class RouterCore {
 public:
  explicit RouterCore(RouterCoreOptions options);

  const ModelText& text() const { return *options_.text; }
  const ModelFacts& facts() const { return options_.facts; }
  RouterMetrics& metrics() { return *options_.metrics; }
  WorkerDirectory& directory() { return *options_.directory; }
  DrainGate& gate() { return gate_; }
  const std::shared_ptr<grpc::Channel>& decode_channel(const std::string& address) const {
    return options_.decode_channels.at(address);
  }

  // Unavailable while draining, ResourceExhausted with max_in_flight calls; else owes gate().Leave.
  absl::Status Enter();
  // With what the workers can hold now; context_tokens is 0 without a ready pair.
  PlanLimits Limits() const;
  absl::StatusOr<Route> Choose(const RouteRequest& request);
  uint64_t DrawNumber();
  // Runs work that may take milliseconds (tokenizing) off gRPC's threads.
  void PostTextWork(std::function<void()> work);

 private:
  RouterCoreOptions options_;
  DrainGate gate_;
  std::mutex mutex_;  // Guards random_.
  std::mt19937_64 random_;
  std::atomic<uint32_t> next_executor_{0};
  std::vector<std::unique_ptr<SerialExecutor>> text_executors_;
};

}  // namespace baton
