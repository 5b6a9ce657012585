#include "services/router/inference_service.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/text/detokenizer.h"
#include "services/base/proto_convert.h"
#include "services/base/status_to_grpc.h"
#include "services/router/generate_call.h"

namespace baton {
namespace {

// Half of what our clients take (peer_channel.cc); gRPC aborts the process over a message of 2 GiB.
constexpr size_t kMaxDetokenizedBytes = size_t{32} << 20;

const char* StateName(WorkerState state) {
  switch (state) {
    case WorkerState::kConnecting:
      return "connecting";
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kDraining:
      return "draining";
    case WorkerState::kDown:
      return "down";
  }
  return "down";
}

v1::WorkerInfo ToProto(const WorkerView& worker) {
  const WorkerReport& report = worker.report;
  v1::WorkerInfo info;
  info.set_address(worker.address);
  info.set_role(worker.role == WorkerRole::kDecode ? "decode" : "prefill");
  info.set_state(StateName(worker.state));
  info.set_reason(worker.reason);
  info.set_in_flight(worker.in_flight);
  info.set_incarnation(report.incarnation);
  info.set_running(report.running);
  info.set_waiting(report.waiting);
  info.set_max_rows(report.max_rows);
  info.set_full_pages(report.full_pages);
  info.set_full_pages_used(report.full_pages_used);
  info.set_window_pages(report.window_pages);
  info.set_window_pages_used(report.window_pages_used);
  info.set_quarantined_pages(report.quarantined_pages);
  info.set_device(report.device);
  for (const TransportReport& transport : report.transports) {
    *info.add_transports() = ToProto(transport);
  }
  return info;
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  auto call = std::make_shared<GenerateCall>(core_, context, request);
  call->Start();
  return call.get();  // Owns itself until it is done.
}

absl::Status InferenceService::TokenizeNow(const v1::TokenizeRequest& request,
                                           v1::TokenizeResponse* response) {
  const PlanLimits limits = core_->Limits();
  std::vector<TokenId> ids;
  switch (request.input_case()) {
    case v1::TokenizeRequest::kText: {
      BATON_RETURN_IF_ERROR(CheckTextSize("text", request.text().size(), limits));
      BATON_ASSIGN_OR_RETURN(
          ids, core_->text().tokenizer().Encode(request.text(), request.add_special_tokens()));
      break;
    }
    case v1::TokenizeRequest::kChat: {
      BATON_ASSIGN_OR_RETURN(
          ids, EncodeChat(request.chat(), core_->text(), limits, response->mutable_rendered()));
      break;
    }
    case v1::TokenizeRequest::INPUT_NOT_SET:
      return absl::InvalidArgumentError("input: wanted text or chat, found none");
  }
  response->mutable_ids()->Assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

// Piece by piece: a few bytes of ids can stand for hundreds of times as much text.
absl::Status InferenceService::DetokenizeNow(const v1::DetokenizeRequest& request,
                                             v1::DetokenizeResponse* response) {
  StreamDetokenizer detokenizer(core_->text().tokenizer(), request.skip_special_tokens());
  std::string& text = *response->mutable_text();
  for (const int32_t id : request.ids()) {
    BATON_ASSIGN_OR_RETURN(const std::string piece, detokenizer.Push(id));
    text += piece;
    if (text.size() <= kMaxDetokenizedBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("ids: wanted a text of at most ", kMaxDetokenizedBytes, " bytes, found more"));
  }
  text += detokenizer.Flush();
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  core_->PostTextWork([this, reactor, request, response] {
    reactor->Finish(ToGrpcStatus(TokenizeNow(*request, response)));
  });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  core_->PostTextWork([this, reactor, request, response] {
    reactor->Finish(ToGrpcStatus(DetokenizeNow(*request, response)));
  });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest*,
                                                     v1::GetModelResponse* response) {
  const PlanLimits limits = core_->Limits();
  const ModelFacts& facts = core_->facts();
  response->set_name(limits.model_name);
  response->set_model_type(facts.model_type);
  response->set_vocab_size(facts.vocab_size);
  response->set_context_tokens(limits.context_tokens);
  response->set_max_prompt_tokens(limits.context_tokens > 0 ? limits.context_tokens - 1 : 0);
  response->mutable_eos_token_ids()->Assign(facts.eos_ids.begin(), facts.eos_ids.end());
  response->set_has_chat_template(core_->text().has_chat_template());
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::ListWorkers(grpc::CallbackServerContext* context,
                                                        const v1::ListWorkersRequest*,
                                                        v1::ListWorkersResponse* response) {
  for (const WorkerView& worker : core_->directory().Snapshot(std::chrono::steady_clock::now())) {
    *response->add_workers() = ToProto(worker);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace baton
