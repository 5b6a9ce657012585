// GenerateCall: one client's Generate on the router: plans it, sends it to a decode worker, turns
// tokens into text on their way back, and moves to another worker as long as the client has seen
// nothing. Owns itself until the call is over; gRPC's threads.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "baton/v1/inference.grpc.pb.h"
#include "baton/v1/worker.grpc.pb.h"
#include "common/text/detokenizer.h"
#include "services/router/router_core.h"

namespace baton {

class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  // `core`, `context` and `request` outlive the call.
  GenerateCall(RouterCore* core, grpc::CallbackServerContext* context,
               const v1::GenerateRequest* request);

  void Start();
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  class Attempt;

  void Plan();
  void StartAttempt();
  bool OnTokens(const v1::DecodeResponse& response);
  void OnAttemptEnd(const absl::Status& status);
  absl::Status Detokenize(const v1::DecodeResponse& response);
  bool MayRetry(const absl::Status& status) const;
  void LeaveRoute();
  void End(absl::Status status);

  RouterCore* const core_;
  grpc::CallbackServerContext* const context_;
  const v1::GenerateRequest* const request_;
  const std::chrono::steady_clock::time_point arrived_;
  const std::string request_id_;        // The client's, or one of ours; for logs and workers.
  std::shared_ptr<GenerateCall> self_;  // Until OnDone.

  std::mutex mutex_;  // Guards all below.
  bool entered_ = false;
  GenerationPlan plan_;
  std::optional<StreamDetokenizer> detokenizer_;
  std::shared_ptr<Attempt> attempt_;  // Shared with gRPC until its OnDone.
  Route route_;
  bool on_route_ = false;    // The directory counts this request.
  bool prefilling_ = false;  // The directory counts its prompt.
  std::vector<std::string> tried_;
  absl::Status last_error_;
  v1::GenerateResponse message_;
  bool answered_ = false;  // The client has got something.
  bool complete_ = false;  // A finish reason has arrived.
  bool writing_ = false;
  bool cancelled_ = false;
  bool ended_ = false;
  std::optional<absl::Status> end_after_write_;
  uint32_t token_count_ = 0;
};

}  // namespace baton
