#include "services/client/router_client.h"

#include <grpcpp/client_context.h>

#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "baton/v1/inference.grpc.pb.h"
#include "services/base/peer_channel.h"
#include "services/base/status_to_grpc.h"

namespace baton {

namespace {

// In words, where gRPC names only the code: a server that does not know the call, a passed
// deadline.
absl::Status AsSeenByUsers(const grpc::Status& status, std::chrono::milliseconds timeout) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return absl::UnimplementedError(
        "the server does not speak baton.v1.Inference: is it a router's address?");
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && timeout.count() > 0) {
    return absl::DeadlineExceededError(
        absl::StrCat("not done within ", absl::FormatDuration(absl::FromChrono(timeout))));
  }
  // Nothing that another time would change.
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
      absl::StrContains(status.error_message(), "message larger than max")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request or its answer is too long: ", status.error_message()));
  }
  return FromGrpcStatus(status);
}

}  // namespace

struct RouterClient::Connection {
  std::unique_ptr<v1::Inference::Stub> stub;
  std::chrono::milliseconds timeout;
  std::mutex mutex;
  grpc::ClientContext* running = nullptr;  // Guarded by mutex, as is the next.
  bool interrupted = false;                // The running call, by Cancel.

  void Prepare(grpc::ClientContext& context) const {
    if (timeout.count() > 0) context.set_deadline(std::chrono::system_clock::now() + timeout);
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::Inference::Stub::*method)(grpc::ClientContext*,
                                                                            const Request&,
                                                                            Response*),
                                const Request& request) {
    grpc::ClientContext context;
    Prepare(context);
    Response response;
    const absl::Status status =
        AsSeenByUsers((stub.get()->*method)(&context, request, &response), timeout);
    if (!status.ok()) return status;
    return response;
  }
};

RouterClient::RouterClient(const std::string& address, std::chrono::milliseconds timeout)
    : connection_(std::make_unique<Connection>()) {
  connection_->stub = v1::Inference::NewStub(MakePeerChannel(address));
  connection_->timeout = timeout;
}

RouterClient::~RouterClient() = default;

absl::Status RouterClient::Generate(
    const v1::GenerateRequest& request,
    const std::function<void(const v1::GenerateResponse&)>& on_message) {
  grpc::ClientContext context;
  connection_->Prepare(context);
  {
    std::lock_guard lock(connection_->mutex);
    connection_->running = &context;
    connection_->interrupted = false;
  }
  const auto reader = connection_->stub->Generate(&context, request);
  v1::GenerateResponse message;
  while (reader->Read(&message)) on_message(message);
  const absl::Status status = AsSeenByUsers(reader->Finish(), connection_->timeout);
  std::lock_guard lock(connection_->mutex);
  connection_->running = nullptr;
  if (connection_->interrupted && absl::IsCancelled(status)) {
    return absl::CancelledError("interrupted before the end");
  }
  return status;
}

bool RouterClient::Cancel() {
  std::lock_guard lock(connection_->mutex);
  if (connection_->running == nullptr) return false;
  connection_->interrupted = true;
  connection_->running->TryCancel();
  return true;
}

absl::StatusOr<v1::TokenizeResponse> RouterClient::Tokenize(const v1::TokenizeRequest& request) {
  return connection_->Call(&v1::Inference::Stub::Tokenize, request);
}

absl::StatusOr<v1::DetokenizeResponse> RouterClient::Detokenize(
    const v1::DetokenizeRequest& request) {
  return connection_->Call(&v1::Inference::Stub::Detokenize, request);
}

absl::StatusOr<v1::GetModelResponse> RouterClient::GetModel() {
  return connection_->Call(&v1::Inference::Stub::GetModel, v1::GetModelRequest());
}

absl::StatusOr<v1::ListWorkersResponse> RouterClient::ListWorkers() {
  return connection_->Call(&v1::Inference::Stub::ListWorkers, v1::ListWorkersRequest());
}

}  // namespace baton
