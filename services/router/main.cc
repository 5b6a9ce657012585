// baton-router: what clients talk to. Validates, tokenizes, picks a pair of workers, streams text.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "common/log.h"
#include "services/base/flag_ranges.h"
#include "services/base/peer_channel.h"
#include "services/base/service_process.h"
#include "services/base/worker_report.h"
#include "services/router/inference_service.h"
#include "services/router/worker_watch.h"

ABSL_FLAG(std::string, model, "",
          "checkpoint directory: config.json, tokenizer.json, chat_template.jinja");
ABSL_FLAG(std::string, model_name, "", "served name; empty = the directory's name");
ABSL_FLAG(std::vector<std::string>, prefill_workers, {},
          "host:port of each, with commas between; none if all decode workers prefill themselves");
ABSL_FLAG(std::vector<std::string>, decode_workers, {}, "host:port of each, with commas between");
ABSL_FLAG(uint32_t, max_in_flight, 1024, "Generate calls at once");
ABSL_FLAG(int, worker_timeout_ms, 2000, "a worker that is silent for so long counts as down");
ABSL_FLAG(uint64_t, seed, 0, "of tie breaks and of requests' seeds; 0 = random, else reproducible");

namespace baton {
namespace {

// Everything of the process, in the order of construction; destroyed in reverse.
struct RouterProcess {
  Metrics metrics{"router"};
  RouterMetrics router_metrics{metrics};
  std::unique_ptr<WorkerDirectory> directory;
  std::unique_ptr<RouterCore> core;
  std::unique_ptr<InferenceService> service;
  std::unique_ptr<GrpcServer> server;
  std::unique_ptr<WorkerWatch> watch;
};

absl::Status AddWorkers(const std::vector<std::string>& addresses, WorkerRole role,
                        WorkerDirectory& directory,
                        std::map<std::string, std::shared_ptr<grpc::Channel>>& channels) {
  const char* const flag = role == WorkerRole::kDecode ? "decode_workers" : "prefill_workers";
  if (addresses.empty() && role == WorkerRole::kDecode) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": wanted host:port, found none"));
  }
  for (const std::string& address : addresses) {
    if (!absl::StrContains(address, ':')) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": wanted host:port, found \"", address, "\""));
    }
    if (!channels.emplace(address, MakePeerChannel(address)).second) {
      return absl::InvalidArgumentError(absl::StrCat("worker ", address, " is named twice"));
    }
    directory.AddWorker(address, role);
  }
  return absl::OkStatus();
}

std::string ModelName() {
  if (std::string name = absl::GetFlag(FLAGS_model_name); !name.empty()) return name;
  const std::filesystem::path path(absl::GetFlag(FLAGS_model));
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Runs on every change: readiness as seen from outside is a ready pair, or a decode worker that
// prefills itself.
void PublishReadiness(RouterProcess& process) {
  uint32_t decode = 0;
  uint32_t prefill = 0;
  const auto workers = process.directory->Snapshot(std::chrono::steady_clock::now());
  for (const WorkerView& worker : workers) {
    if (worker.state != WorkerState::kReady) continue;
    (worker.role == WorkerRole::kDecode ? decode : prefill) += 1;
  }
  process.router_metrics.decode_workers_ready.Set(decode);
  process.router_metrics.prefill_workers_ready.Set(prefill);
  process.server->SetServing(LongestContext(workers) > 0 && !process.core->gate().draining());
}

absl::Status Serve(RouterProcess& process, ShutdownSignal& signal) {
  BATON_RETURN_IF_ERROR(CheckCommonFlags(absl::GetFlag(FLAGS_model)));
  BATON_RETURN_IF_ERROR(
      CheckFlagRanges({{"max_in_flight", absl::GetFlag(FLAGS_max_in_flight), 1, 1 << 20},
                       // A shorter silence is none.
                       {"worker_timeout_ms", absl::GetFlag(FLAGS_worker_timeout_ms),
                        2 * kReportIntervalMs, 86400000}}));
  RouterCoreOptions options;
  BATON_ASSIGN_OR_RETURN(options.facts, LoadModelFacts(absl::GetFlag(FLAGS_model)));
  BATON_ASSIGN_OR_RETURN(options.text, ModelText::Load(absl::GetFlag(FLAGS_model)));
  process.directory = std::make_unique<WorkerDirectory>(
      std::chrono::milliseconds(absl::GetFlag(FLAGS_worker_timeout_ms)));
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  BATON_RETURN_IF_ERROR(AddWorkers(absl::GetFlag(FLAGS_decode_workers), WorkerRole::kDecode,
                                   *process.directory, channels));
  options.decode_channels = channels;
  BATON_RETURN_IF_ERROR(AddWorkers(absl::GetFlag(FLAGS_prefill_workers), WorkerRole::kPrefill,
                                   *process.directory, channels));
  options.model_name = ModelName();
  options.directory = process.directory.get();
  options.metrics = &process.router_metrics;
  options.max_in_flight = absl::GetFlag(FLAGS_max_in_flight);
  options.seed = absl::GetFlag(FLAGS_seed);
  if (options.seed == 0)
    options.seed = (uint64_t{std::random_device()()} << 32) + std::random_device()();
  process.core = std::make_unique<RouterCore>(std::move(options));
  process.service = std::make_unique<InferenceService>(process.core.get());
  BATON_ASSIGN_OR_RETURN(const int metrics_port,
                         process.metrics.Serve(absl::GetFlag(FLAGS_metrics_listen)));
  BATON_ASSIGN_OR_RETURN(process.server,
                         GrpcServer::Start(absl::GetFlag(FLAGS_listen), {process.service.get()},
                                           {v1::Inference::service_full_name()}));
  process.watch = std::make_unique<WorkerWatch>(process.directory.get(), std::move(channels),
                                                [&process] { PublishReadiness(process); });
  AnnounceListening(*process.server, metrics_port);
  signal.Wait();
  DrainAndStop({.server = process.server.get(), .gate = &process.core->gate()});
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::ShutdownSignal signal;
  baton::ParseServiceFlags(argc, argv, "router");
  auto process = std::make_unique<baton::RouterProcess>();
  const absl::Status status = baton::Serve(*process, signal);
  if (status.ok()) return 0;
  spdlog::critical("msg=\"cannot serve\" error={}", baton::LogText(status.ToString()));
  return 1;
}
