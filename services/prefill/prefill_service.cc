#include "services/prefill/prefill_service.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "services/base/proto_convert.h"
#include "services/base/status_to_grpc.h"
#include "services/prefill/kv_convert.h"

namespace baton {
namespace {

// One Prefill call. Shared with the job, which may outlive the call.
class PrefillReactor final : public grpc::ServerUnaryReactor {
 public:
  PrefillReactor(PrefillEngine* engine, DrainGate* gate, v1::PrefillResponse* response)
      : engine_(engine), gate_(gate), response_(response) {}

  void Start(absl::StatusOr<PrefillJob> job) {
    absl::Status entered = gate_->Enter();
    entered_ = entered.ok();
    if (!entered.ok()) return Finish(ToGrpcStatus(entered));
    if (!job.ok()) return Finish(ToGrpcStatus(job.status()));
    job->done = [this](absl::StatusOr<PrefillResult> result) { Answer(result); };
    const absl::StatusOr<uint64_t> id = engine_->Submit(*std::move(job));
    if (!id.ok()) return Finish(ToGrpcStatus(id.status()));
    job_id_ = *id;
  }

  void OnCancel() override {
    // Before the job has an id the call is not yet started: gRPC runs OnCancel after the handler.
    engine_->Cancel(job_id_);
  }
  void OnDone() override {
    if (entered_) gate_->Leave();
    delete this;
  }

 private:
  void Answer(const absl::StatusOr<PrefillResult>& result) {
    if (!result.ok()) return Finish(ToGrpcStatus(result.status()));
    response_->set_first_token(result->first.token);
    response_->set_logprob(result->first.logprob);
    response_->set_queue_ms(result->queue_ms);
    response_->set_compute_ms(result->compute_ms);
    response_->set_kv_bytes_written(result->kv_bytes_written);
    Finish(grpc::Status::OK);
  }

  PrefillEngine* const engine_;
  DrainGate* const gate_;
  v1::PrefillResponse* const response_;
  bool entered_ = false;
  std::atomic<uint64_t> job_id_{0};
};

}  // namespace

absl::Status PrefillService::Attach(const v1::AttachArenaRequest& request,
                                    v1::AttachArenaResponse* response) {
  BATON_ASSIGN_OR_RETURN(const KvArenaDescriptor found, FromProto(request.arena()));
  const Backend& backend = *options_.backend;
  const KvLayout layout = backend.MakeKvLayout(found.groups[kFullGroup].page_count,
                                               found.groups[kWindowGroup].page_count);
  const KvArenaDescriptor wanted =
      DescribeArena(layout, {.transport = found.transport,
                             .device_uuid = backend.device_uuid(),
                             .model_fingerprint = backend.weights_fingerprint()});
  BATON_ASSIGN_OR_RETURN(const auto arena, options_.importer->Attach(found, wanted));
  PrefillMetrics& metrics = *options_.metrics;
  metrics.arenas.Set(options_.importer->arena_count());
  metrics.self_test_write.Set(arena->self_test().write_bytes_per_second);
  metrics.self_test_read.Set(arena->self_test().read_bytes_per_second);
  metrics.peer_device.Set(arena->on_peer_device() ? 1 : 0);
  spdlog::info(
      "msg=\"arena attached\" arena={} owner_pid={} device={} path=\"{}\" write_gbps={:.2f} "
      "read_gbps={:.2f}",
      found.incarnation, found.owner_pid, found.device_uuid,
      arena->on_peer_device() ? "pushed" : "in place",
      arena->self_test().write_bytes_per_second / 1e9,
      arena->self_test().read_bytes_per_second / 1e9);
  response->set_incarnation(options_.incarnation);
  response->set_write_bytes_per_second(arena->self_test().write_bytes_per_second);
  response->set_read_bytes_per_second(arena->self_test().read_bytes_per_second);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* PrefillService::AttachArena(grpc::CallbackServerContext* context,
                                                      const v1::AttachArenaRequest* request,
                                                      v1::AttachArenaResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  attacher_.Post([this, reactor, request, response] {
    const absl::Status status = Attach(*request, response);
    if (!status.ok()) spdlog::warn("msg=\"attach refused\" error={}", LogText(status.ToString()));
    reactor->Finish(ToGrpcStatus(status));
  });
  return reactor;
}

absl::StatusOr<PrefillJob> PrefillService::ToJob(const v1::PrefillRequest& request) const {
  BATON_ASSIGN_OR_RETURN(const SamplingParams sampling, FromProto(request.sampling()));
  if (request.prefill_incarnation() != options_.incarnation) {
    return absl::NotFoundError(absl::StrCat("prefill_incarnation: wanted ", options_.incarnation,
                                            ", found ", request.prefill_incarnation()));
  }
  auto arena = options_.importer->Find(request.lease().arena_incarnation());
  if (arena == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("arena ", request.lease().arena_incarnation(), " is not attached"));
  }
  return PrefillJob{.request_id = request.request_id(),
                    .prompt = {request.token_ids().begin(), request.token_ids().end()},
                    .sampling = sampling,
                    .lease = FromProto(request.lease()),
                    .arena = std::move(arena)};
}

grpc::ServerUnaryReactor* PrefillService::Prefill(grpc::CallbackServerContext*,
                                                  const v1::PrefillRequest* request,
                                                  v1::PrefillResponse* response) {
  auto* reactor = new PrefillReactor(options_.engine, options_.gate, response);  // See OnDone.
  reactor->Start(ToJob(*request));
  return reactor;
}

grpc::ServerUnaryReactor* PrefillService::RevokeLease(grpc::CallbackServerContext* context,
                                                      const v1::RevokeLeaseRequest* request,
                                                      v1::RevokeLeaseResponse*) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (request->prefill_incarnation() != options_.incarnation) {
    reactor->Finish(ToGrpcStatus(absl::FailedPreconditionError(
        absl::StrCat("prefill_incarnation: wanted ", options_.incarnation, ", found ",
                     request->prefill_incarnation()))));
    return reactor;
  }
  options_.engine->Revoke(request->arena_incarnation(), request->lease_id(),
                          [reactor] { reactor->Finish(grpc::Status::OK); });
  return reactor;
}

}  // namespace baton
