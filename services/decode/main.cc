// baton-decode: owns the KV arena and the requests, has prompts prefilled elsewhere, decodes.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "kernels/backend_factory.h"
#include "kernels/kv/kv_exporter.h"
#include "kernels/kv/kv_transport_factory.h"
#include "kernels/models/checkpoint.h"
#include "services/base/flag_ranges.h"
#include "services/base/incarnation.h"
#include "services/base/service_process.h"
#include "services/base/status_service.h"
#include "services/decode/arena_plan.h"
#include "services/decode/decode_engine.h"
#include "services/decode/decode_service.h"
#include "services/decode/grpc_prefill_client.h"
#include "services/decode/self_prefill.h"

ABSL_FLAG(std::string, model, "", "Hugging Face checkpoint directory");
ABSL_FLAG(std::string, backend, "auto", "auto, cpu or cuda");
ABSL_FLAG(std::string, dtype, "bfloat16", "bfloat16 or float32 (CPU only: the reference mode)");
ABSL_FLAG(int, threads, 0, "CPU worker threads; 0 = all cores");
ABSL_FLAG(int, window_keys, 0,
          "keys a sliding layer sees, the current one included; 0 = as the model says");
ABSL_FLAG(uint32_t, max_rows, 32, "rows of the decode batch");
ABSL_FLAG(uint32_t, max_waiting, 256, "requests that may wait for KV pages or a row");
ABSL_FLAG(uint32_t, max_prefills, 4, "prefills at once");
ABSL_FLAG(uint32_t, max_context, 0, "longest prompt plus completion, tokens; 0 = the model's");
ABSL_FLAG(
    uint32_t, chunk_tokens, 0,
    "longest prefill chunk; sizes the ring of window pages; 0 = 512 on the CPU, 8192 on a GPU");
ABSL_FLAG(std::string, prefill, "workers",
          "who computes prompts: workers, or self: this process, decode pausing meanwhile");
ABSL_FLAG(bool, pinned, true, "--prefill=self on a GPU: as --pinned of baton-prefill");
ABSL_FLAG(uint32_t, inline_prefill_tokens, 0,
          "prompts up to this long go through decode rows, a token a step, without a hand-over");
ABSL_FLAG(uint32_t, kv_memory_mib, 0,
          "memory of the KV arena; 0 = 512 on the CPU, on a GPU what is free beside the weights "
          "less device_margin_mib");
ABSL_FLAG(int64_t, device_margin_mib, -1,
          "GPU memory that the arena leaves free when kv_memory_mib is 0; -1 = room for a prefill "
          "process of the same model");
ABSL_FLAG(uint32_t, full_pages, 0, "pages for full-attention layers; 0 = from kv_memory_mib");
ABSL_FLAG(uint32_t, window_pages, 0, "pages for window layers; 0 = from kv_memory_mib");
ABSL_FLAG(int, prefill_timeout_seconds, 120, "a prefill worker that takes longer is given up");
ABSL_FLAG(int, silent_quarantine_seconds, 0,
          "free pages of a given-up prefill worker that lives but says nothing after so long; "
          "sound only if no worker can be suspended longer and then write; 0 = never");

namespace baton {
namespace {

constexpr uint64_t kCpuArenaMib = 512;
// Of a prefill process beside its weights: contexts, workspaces, buffers of a chunk.
constexpr uint64_t kPrefillExtraMib = 6144;

// Everything of the process, in the order of construction; destroyed in reverse, so that nothing
// outlives what it uses.
struct DecodeProcess {
  std::string incarnation = MakeIncarnation();
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvTransport> transport;
  std::unique_ptr<KvMemory> memory;
  Metrics metrics{"decode"};
  DecodeMetrics decode_metrics{metrics};
  DrainGate gate;
  GrpcPrefillClient client;
  std::unique_ptr<StatusService> status;
  // Set once the engine runs; no peer can attach before, because the engine asks them to.
  std::atomic<DecodeEngine*> peer_events_to{nullptr};
  std::unique_ptr<KvExporter> exporter;
  SerialExecutor sender;
  std::unique_ptr<DecodeEngine> engine;
  std::unique_ptr<DecodeService> service;
  std::unique_ptr<GrpcServer> server;
  std::atomic<GrpcServer*> serving{nullptr};  // Told when the device is lost.
};

bool PrefillsItself() { return absl::GetFlag(FLAGS_prefill) == "self"; }

uint32_t ChunkTokens(const Backend& backend) {
  const uint32_t given = absl::GetFlag(FLAGS_chunk_tokens);
  if (given > 0) return given;
  return static_cast<uint32_t>(backend.default_chunk_tokens());
}

// Memory that the arena may take, in bytes.
absl::StatusOr<uint64_t> ArenaMemory(const Checkpoint& checkpoint, Backend& backend) {
  const uint64_t given_mib = absl::GetFlag(FLAGS_kv_memory_mib);
  if (given_mib > 0) return given_mib << 20;
  if (backend.name() == "cpu") return kCpuArenaMib << 20;
  const int64_t margin_mib = absl::GetFlag(FLAGS_device_margin_mib);
  const uint64_t margin_bytes = margin_mib >= 0
                                    ? static_cast<uint64_t>(margin_mib) << 20
                                    : checkpoint.weights().total_bytes + (kPrefillExtraMib << 20);
  return backend.AvailableKvBytes(margin_bytes);
}

absl::StatusOr<KvLayout> PlanLayout(const Checkpoint& checkpoint, Backend& backend,
                                    uint32_t max_context_tokens) {
  const KvLayout shape = backend.MakeKvLayout(2, 2);
  ArenaPageCounts counts{.full_pages = absl::GetFlag(FLAGS_full_pages),
                         .window_pages = absl::GetFlag(FLAGS_window_pages)};
  if (counts.full_pages == 0 || counts.window_pages == 0) {
    BATON_ASSIGN_OR_RETURN(const uint64_t memory_bytes, ArenaMemory(checkpoint, backend));
    BATON_ASSIGN_OR_RETURN(const ArenaPageCounts planned,
                           PlanArena(shape, {.memory_bytes = memory_bytes,
                                             .max_rows = absl::GetFlag(FLAGS_max_rows),
                                             .max_prefills = absl::GetFlag(FLAGS_max_prefills),
                                             .chunk_tokens = ChunkTokens(backend),
                                             .max_context_tokens = max_context_tokens}));
    if (counts.full_pages == 0) counts.full_pages = planned.full_pages;
    if (counts.window_pages == 0) counts.window_pages = planned.window_pages;
  }
  return backend.MakeKvLayout(counts.full_pages, counts.window_pages);
}

absl::Status LoadModel(DecodeProcess& process) {
  if (const std::string who = absl::GetFlag(FLAGS_prefill); who != "workers" && who != "self") {
    return absl::InvalidArgumentError(
        absl::StrCat("--prefill: wanted workers or self, found \"", who, "\""));
  }
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
                                                           .decode_only = !PrefillsItself()}));
  return absl::OkStatus();
}

// A process' POSIX mapping is gone when its socket closes; on a GPU, work that it had launched may
// still drain.
std::chrono::milliseconds GoneMargin(const KvTransport& transport) {
  return std::chrono::milliseconds(transport.kind() == kPosixShmTransport ? 0 : 2000);
}

// The arena's memory, and the socket that hands it to prefill workers.
absl::Status ExportArena(DecodeProcess& process, const KvLayout& layout) {
  const Backend& backend = *process.backend;
  BATON_ASSIGN_OR_RETURN(const std::string kind, KvTransportForBackend(backend.name()));
  BATON_ASSIGN_OR_RETURN(process.transport, MakeKvTransport({.kind = kind}));
  BATON_RETURN_IF_ERROR(process.transport->CheckAvailable());
  BATON_ASSIGN_OR_RETURN(process.memory, process.transport->Allocate(layout.total_bytes()));
  KvExporterOptions options{
      .descriptor = DescribeArena(layout, {.transport = kind,
                                           .device_uuid = backend.device_uuid(),
                                           .model_fingerprint = backend.weights_fingerprint()}),
      .incarnation = process.incarnation,
      .transport = process.transport.get(),
      .memory = process.memory.get()};
  options.on_peer = [&process](const KvPeerEvent& event) {
    if (DecodeEngine* engine = process.peer_events_to) engine->OnPeerEvent(event);
  };
  BATON_ASSIGN_OR_RETURN(process.exporter, KvExporter::Start(std::move(options)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SelfPrefill>> MakeSelfPrefill(DecodeProcess& process,
                                                             const KvLayout& layout) {
  SelfPrefillOptions options{.kv_base = process.memory->base(), .layout = layout};
  BATON_ASSIGN_OR_RETURN(options.runner,
                         process.backend->MakePrefillRunner(
                             {.max_chunk_tokens = static_cast<int>(ChunkTokens(*process.backend)),
                              .pinned = absl::GetFlag(FLAGS_pinned)}));
  return std::make_unique<SelfPrefill>(std::move(options));
}

absl::Status StartEngine(DecodeProcess& process, const KvLayout& layout, uint32_t max_context) {
  DecodeEngineOptions options;
  BATON_ASSIGN_OR_RETURN(options.runner,
                         process.backend->MakeDecodeRunner(
                             {.max_rows = static_cast<int>(absl::GetFlag(FLAGS_max_rows)),
                              .layout = layout,
                              .kv_base = process.memory->base(),
                              .max_context_tokens = static_cast<int>(max_context)}));
  KvArenaOptions arena{.layout = layout,
                       .incarnation = process.incarnation,
                       .gone_margin = GoneMargin(*process.transport)};
  if (const int seconds = absl::GetFlag(FLAGS_silent_quarantine_seconds); seconds > 0) {
    arena.silent_quarantine = std::chrono::seconds(seconds);
  }
  BATON_ASSIGN_OR_RETURN(options.arena, KvArena::Create(std::move(arena)));
  if (PrefillsItself()) {
    BATON_ASSIGN_OR_RETURN(options.self_prefill, MakeSelfPrefill(process, layout));
  }
  options.client = &process.client;
  options.descriptor = process.exporter->descriptor();
  options.metrics = &process.decode_metrics;
  options.limits = {.vocab_size = static_cast<uint32_t>(process.backend->config().vocab),
                    .max_context_tokens = max_context,
                    .chunk_tokens = ChunkTokens(*process.backend),
                    .inline_prefill_tokens = absl::GetFlag(FLAGS_inline_prefill_tokens),
                    .layout = layout};
  options.max_waiting = absl::GetFlag(FLAGS_max_waiting);
  options.max_prefills = absl::GetFlag(FLAGS_max_prefills);
  options.prefill_timeout = std::chrono::seconds(absl::GetFlag(FLAGS_prefill_timeout_seconds));
  options.identity = {.role = WorkerRole::kDecode,
                      .incarnation = process.incarnation,
                      .reason = "starting",
                      .model_fingerprint = process.backend->weights_fingerprint(),
                      .device = process.backend->name()};
  process.status = std::make_unique<StatusService>(options.identity);
  options.on_report = [&process](const WorkerReport& report) {
    process.status->Update(report);
    GrpcServer* const server = process.serving;
    if (!report.ready && server != nullptr) server->SetServing(false);
  };
  process.engine = std::make_unique<DecodeEngine>(std::move(options));
  process.peer_events_to = process.engine.get();
  return absl::OkStatus();
}

absl::Status CheckFlags() {
  BATON_RETURN_IF_ERROR(CheckCommonFlags(absl::GetFlag(FLAGS_model)));
  return CheckFlagRanges(
      {{"window_keys", absl::GetFlag(FLAGS_window_keys), 0, INT32_MAX},
       {"max_rows", absl::GetFlag(FLAGS_max_rows), 1, 1024},
       {"max_waiting", absl::GetFlag(FLAGS_max_waiting), 1, INT32_MAX},
       {"max_prefills", absl::GetFlag(FLAGS_max_prefills), 1, 1024},
       {"max_context", absl::GetFlag(FLAGS_max_context), 0, INT32_MAX},
       {"chunk_tokens", absl::GetFlag(FLAGS_chunk_tokens), 0, INT32_MAX},
       {"inline_prefill_tokens", absl::GetFlag(FLAGS_inline_prefill_tokens), 0, INT32_MAX},
       {"kv_memory_mib", absl::GetFlag(FLAGS_kv_memory_mib), 0, 1 << 24},
       {"device_margin_mib", absl::GetFlag(FLAGS_device_margin_mib), -1, 1 << 24},
       {"prefill_timeout_seconds", absl::GetFlag(FLAGS_prefill_timeout_seconds), 1, 86400},
       {"silent_quarantine_seconds", absl::GetFlag(FLAGS_silent_quarantine_seconds), 0, 86400}});
}

absl::Status Serve(DecodeProcess& process, ShutdownSignal& signal) {
  BATON_RETURN_IF_ERROR(CheckFlags());
  BATON_RETURN_IF_ERROR(LoadModel(process));
  const auto positions = static_cast<uint32_t>(process.backend->config().max_positions);
  const uint32_t wanted = absl::GetFlag(FLAGS_max_context);
  const uint32_t model_context = wanted > 0 ? std::min(wanted, positions) : positions;
  BATON_ASSIGN_OR_RETURN(const KvLayout layout,
                         PlanLayout(*process.checkpoint, *process.backend, model_context));
  const uint32_t max_context =
      std::min(model_context, LongestSequence(layout, ChunkTokens(*process.backend)));
  BATON_RETURN_IF_ERROR(ExportArena(process, layout));
  BATON_RETURN_IF_ERROR(StartEngine(process, layout, max_context));
  process.service =
      std::make_unique<DecodeService>(process.engine.get(), &process.gate, &process.sender);
  BATON_ASSIGN_OR_RETURN(const int metrics_port,
                         process.metrics.Serve(absl::GetFlag(FLAGS_metrics_listen)));
  BATON_ASSIGN_OR_RETURN(
      process.server,
      GrpcServer::Start(
          absl::GetFlag(FLAGS_listen), {process.service.get(), process.status.get()},
          {v1::DecodeWorker::service_full_name(), v1::WorkerStatus::service_full_name()}));
  process.server->SetServing(true);
  process.serving = process.server.get();
  spdlog::info(
      "msg=\"arena\" incarnation={} transport={} bytes={} full_pages={} window_pages={} "
      "max_context_tokens={}",
      process.incarnation, std::string(process.transport->kind()), layout.total_bytes(),
      layout.groups[kFullGroup].page_count, layout.groups[kWindowGroup].page_count, max_context);
  AnnounceListening(*process.server, metrics_port);
  signal.Wait();
  DrainAndStop({.server = process.server.get(),
                .gate = &process.gate,
                .announce = [&] { process.status->SetDraining(); },
                .close = [&] { process.status->EndWatches(); }});
  process.peer_events_to = nullptr;
  process.exporter.reset();
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::ShutdownSignal signal;
  baton::ParseServiceFlags(argc, argv, "decode");
  auto process = std::make_unique<baton::DecodeProcess>();
  const absl::Status status = baton::Serve(*process, signal);
  if (status.ok()) return 0;
  spdlog::critical("msg=\"cannot serve\" error={}", baton::LogText(status.ToString()));
  return 1;
}
