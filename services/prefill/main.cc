// baton-prefill: computes prompts into pages that decode workers lend it.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "kernels/backend_factory.h"
#include "kernels/kv/kv_importer.h"
#include "kernels/kv/kv_transport_factory.h"
#include "kernels/models/checkpoint.h"
#include "services/base/flag_ranges.h"
#include "services/base/incarnation.h"
#include "services/base/service_process.h"
#include "services/base/status_service.h"
#include "services/prefill/prefill_engine.h"
#include "services/prefill/prefill_service.h"

ABSL_FLAG(std::string, model, "", "Hugging Face checkpoint directory");
ABSL_FLAG(std::string, backend, "auto", "auto, cpu or cuda");
ABSL_FLAG(std::string, dtype, "bfloat16", "bfloat16 or float32 (CPU only: the reference mode)");
ABSL_FLAG(int, threads, 0, "CPU worker threads; 0 = all cores");
ABSL_FLAG(int, window_keys, 0,
          "keys a sliding layer sees, the current one included; 0 = as the model says");
ABSL_FLAG(
    int, chunk_tokens, 0,
    "longest chunk; a lease with a small ring shortens it; 0 = 512 on the CPU, 8192 on a GPU");
ABSL_FLAG(
    uint32_t, pack_tokens, 8192,
    "on a GPU: waiting prompts may join another's last chunk up to so many tokens, where that "
    "shortens the waiting of all together; 0 = never");
ABSL_FLAG(uint32_t, max_waiting, 256, "prompts that may wait");
ABSL_FLAG(int, max_staged_tokens, 0,
          "longest prompt for a decode worker on another GPU; 0 = the model's longest");
ABSL_FLAG(int, push_copy_mib, 0,
          "for a decode worker on another GPU: layers' K/V gathers until so many MiB are copied at "
          "once; 0 = the measured best");
ABSL_FLAG(bool, pinned, true,
          "on a GPU: the same products whatever a chunk's size, so that prompts chunked or packed "
          "otherwise give the same bits; false = cuBLAS's choice");
ABSL_FLAG(bool, test_always_push, false, "for tests: push to arenas on this GPU too");
ABSL_FLAG(int, test_chunk_delay_ms, 0, "for tests: sleep before each chunk");

namespace baton {
namespace {

constexpr int kLeastChunkTokens = 512;

// Everything of the process, in the order of construction; destroyed in reverse, so that nothing
// outlives what it uses.
struct PrefillProcess {
  std::string incarnation = MakeIncarnation();
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvTransport> transport;
  Metrics metrics{"prefill"};
  PrefillMetrics prefill_metrics{metrics};
  DrainGate gate;
  std::unique_ptr<StatusService> status;
  std::unique_ptr<PrefillEngine> engine;
  std::unique_ptr<KvImporter> importer;
  std::unique_ptr<PrefillService> service;
  std::unique_ptr<GrpcServer> server;
};

absl::Status LoadModel(PrefillProcess& process) {
  CheckpointOptions checkpoint_options;
  if (const int keys = absl::GetFlag(FLAGS_window_keys); keys > 0) {
    checkpoint_options.window_keys = keys;
  }
  BATON_ASSIGN_OR_RETURN(process.checkpoint,
                         Checkpoint::Open(absl::GetFlag(FLAGS_model), checkpoint_options));
  BATON_ASSIGN_OR_RETURN(process.backend,
                         MakeBackend(*process.checkpoint, {.kind = absl::GetFlag(FLAGS_backend),
                                                           .dtype = absl::GetFlag(FLAGS_dtype),
                                                           .threads = absl::GetFlag(FLAGS_threads),
                                                           .prefill_only = true}));
  BATON_ASSIGN_OR_RETURN(const std::string kind, KvTransportForBackend(process.backend->name()));
  BATON_ASSIGN_OR_RETURN(process.transport, MakeKvTransport({.kind = kind}));
  return process.transport->CheckAvailable();
}

// With a chunk length that nobody asked for, memory that is too small for it halves it.
absl::StatusOr<std::unique_ptr<PrefillRunner>> MakeRunner(Backend& backend) {
  const int given = absl::GetFlag(FLAGS_chunk_tokens);
  PrefillRunnerOptions options{
      .max_chunk_tokens = given > 0 ? given : backend.default_chunk_tokens(),
      .push_copy_bytes = static_cast<uint64_t>(absl::GetFlag(FLAGS_push_copy_mib)) << 20,
      .max_staged_tokens = absl::GetFlag(FLAGS_max_staged_tokens),
      .always_push = absl::GetFlag(FLAGS_test_always_push),
      .pinned = absl::GetFlag(FLAGS_pinned)};
  while (true) {
    absl::StatusOr<std::unique_ptr<PrefillRunner>> runner = backend.MakePrefillRunner(options);
    const bool smaller = given == 0 && options.max_chunk_tokens > kLeastChunkTokens &&
                         absl::IsResourceExhausted(runner.status());
    if (!smaller) return runner;
    spdlog::warn("msg=\"no memory for the chunk: halving it\" chunk_tokens={} error={}",
                 options.max_chunk_tokens, LogText(runner.status().ToString()));
    options.max_chunk_tokens /= 2;
  }
}

absl::Status StartEngine(PrefillProcess& process) {
  PrefillEngineOptions options;
  BATON_ASSIGN_OR_RETURN(options.runner, MakeRunner(*process.backend));
  spdlog::info("msg=\"prefill\" chunk_tokens={}", options.runner->max_chunk_tokens());
  options.metrics = &process.prefill_metrics;
  options.vocab_size = static_cast<uint32_t>(process.backend->config().vocab);
  options.pack_tokens = absl::GetFlag(FLAGS_pack_tokens);
  options.max_waiting = absl::GetFlag(FLAGS_max_waiting);
  options.chunk_delay = std::chrono::milliseconds(absl::GetFlag(FLAGS_test_chunk_delay_ms));
  options.identity = {
      .role = WorkerRole::kPrefill,
      .incarnation = process.incarnation,
      .ready = true,
      .model_fingerprint = process.backend->weights_fingerprint(),
      .device = process.backend->name(),
      .max_rows = 1,
      .max_waiting = options.max_waiting,
      .max_context_tokens = static_cast<uint32_t>(process.backend->config().max_positions)};
  process.status = std::make_unique<StatusService>(options.identity);
  options.on_report = [&process](const WorkerReport& report) { process.status->Update(report); };
  process.engine = std::make_unique<PrefillEngine>(std::move(options));
  BATON_ASSIGN_OR_RETURN(
      process.importer,
      KvImporter::Start({.incarnation = process.incarnation,
                         .transport = process.transport.get(),
                         .on_owner_gone = [&process](std::string_view arena) {
                           spdlog::warn("msg=\"arena's owner gone\" arena={}", arena);
                           process.engine->ForgetArena(std::string(arena));
                           process.prefill_metrics.arenas.Set(process.importer->arena_count());
                         }}));
  return absl::OkStatus();
}

absl::Status CheckFlags() {
  BATON_RETURN_IF_ERROR(CheckCommonFlags(absl::GetFlag(FLAGS_model)));
  return CheckFlagRanges(
      {{"window_keys", absl::GetFlag(FLAGS_window_keys), 0, INT32_MAX},
       {"chunk_tokens", absl::GetFlag(FLAGS_chunk_tokens), 0, INT32_MAX},
       {"pack_tokens", absl::GetFlag(FLAGS_pack_tokens), 0, INT32_MAX},
       {"max_staged_tokens", absl::GetFlag(FLAGS_max_staged_tokens), 0, INT32_MAX},
       {"push_copy_mib", absl::GetFlag(FLAGS_push_copy_mib), 0, 65'536},
       {"max_waiting", absl::GetFlag(FLAGS_max_waiting), 1, INT32_MAX},
       {"test_chunk_delay_ms", absl::GetFlag(FLAGS_test_chunk_delay_ms), 0, 3'600'000}});
}

absl::Status Serve(PrefillProcess& process, ShutdownSignal& signal) {
  BATON_RETURN_IF_ERROR(CheckFlags());
  BATON_RETURN_IF_ERROR(LoadModel(process));
  BATON_RETURN_IF_ERROR(StartEngine(process));
  process.service =
      std::make_unique<PrefillService>(PrefillServiceOptions{.incarnation = process.incarnation,
                                                             .backend = process.backend.get(),
                                                             .importer = process.importer.get(),
                                                             .engine = process.engine.get(),
                                                             .gate = &process.gate,
                                                             .metrics = &process.prefill_metrics});
  BATON_ASSIGN_OR_RETURN(const int metrics_port,
                         process.metrics.Serve(absl::GetFlag(FLAGS_metrics_listen)));
  BATON_ASSIGN_OR_RETURN(
      process.server,
      GrpcServer::Start(
          absl::GetFlag(FLAGS_listen), {process.service.get(), process.status.get()},
          {v1::PrefillWorker::service_full_name(), v1::WorkerStatus::service_full_name()}));
  process.server->SetServing(true);
  AnnounceListening(*process.server, metrics_port);
  signal.Wait();
  DrainAndStop({.server = process.server.get(),
                .gate = &process.gate,
                .announce = [&] { process.status->SetDraining(); },
                .close = [&] { process.status->EndWatches(); }});
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::ShutdownSignal signal;
  baton::ParseServiceFlags(argc, argv, "prefill");
  auto process = std::make_unique<baton::PrefillProcess>();
  const absl::Status status = baton::Serve(*process, signal);
  if (status.ok()) return 0;
  spdlog::critical("msg=\"cannot serve\" error={}", baton::LogText(status.ToString()));
  return 1;
}
