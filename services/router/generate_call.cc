#include "services/router/generate_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/log.h"
#include "services/base/proto_convert.h"
#include "services/base/status_to_grpc.h"

namespace baton {
namespace {

constexpr size_t kMaxAttempts = 3;

// Codes that gRPC itself makes when a worker's connection breaks; ours never use them.
absl::Status WorkerError(const absl::Status& status, const std::string& worker, bool cancelled) {
  const bool lost = absl::IsUnknown(status) || (absl::IsCancelled(status) && !cancelled);
  const absl::StatusCode code = lost ? absl::StatusCode::kUnavailable : status.code();
  if (code != absl::StatusCode::kUnavailable) return status;
  return absl::Status(code, absl::StrCat("decode worker ", worker, ": ", status.message()));
}

}  // namespace

// The call on one decode worker. Reads one message at a time: the next one when the client has
// taken the last.
class GenerateCall::Attempt final : public grpc::ClientReadReactor<v1::DecodeResponse> {
 public:
  Attempt(std::shared_ptr<GenerateCall> call, const grpc::CallbackServerContext& server_context,
          const std::shared_ptr<grpc::Channel>& channel)
      : call_(std::move(call)), stub_(v1::DecodeWorker::NewStub(channel)) {
    // Cancellation comes through GenerateCall::OnCancel. A context made from the server's would be
    // cancelled before the call knows why, and its end would look like a lost worker's.
    context_.set_deadline(server_context.deadline());
  }

  void Start(v1::DecodeRequest request, std::shared_ptr<Attempt> self) {
    request_ = std::move(request);
    self_ = std::move(self);
    stub_->async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  // One of these two follows OnTokens, when the client has taken the message or is gone. Until then
  // a hold keeps the call: it may have ended meanwhile, and a read of an ended call is not allowed.
  void ReadNext() {
    StartRead(&response_);
    RemoveHold();
  }
  void GiveUp() {
    Cancel();
    RemoveHold();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    AddHold();
    if (!call_->OnTokens(response_)) GiveUp();
  }
  void OnDone(const grpc::Status& status) override {
    // Given back before the call hears of the end: its answer may be the last thing that keeps the
    // process from going.
    const std::shared_ptr<GenerateCall> call = call_;
    const absl::Status end = FromGrpcStatus(status);
    self_.reset();
    call->OnAttemptEnd(end);
  }

 private:
  const std::shared_ptr<GenerateCall> call_;
  grpc::ClientContext context_;
  const std::unique_ptr<v1::DecodeWorker::Stub> stub_;
  v1::DecodeRequest request_;
  v1::DecodeResponse response_;
  std::shared_ptr<Attempt> self_;  // Until OnDone.
};

GenerateCall::GenerateCall(RouterCore* core, grpc::CallbackServerContext* context,
                           const v1::GenerateRequest* request)
    : core_(core),
      context_(context),
      request_(request),
      arrived_(std::chrono::steady_clock::now()),
      request_id_(!request->request_id().empty() && CheckRequestId(request->request_id()).ok()
                      ? request->request_id()
                      : absl::StrFormat("req-%016x", core->DrawNumber())) {}

void GenerateCall::Start() {
  self_ = shared_from_this();
  std::lock_guard lock(mutex_);
  const absl::Status entered = core_->Enter();
  if (!entered.ok()) return End(entered);
  entered_ = true;
  core_->metrics().in_flight.Increment();
  core_->PostTextWork([self = self_] { self->Plan(); });
}

void GenerateCall::Plan() {
  const PlanLimits limits = core_->Limits();
  absl::StatusOr<GenerationPlan> plan =
      limits.context_tokens > 0
          ? PlanGeneration(*request_, core_->text(), core_->facts(), limits)
          : absl::UnavailableError("no ready pair of a decode and a prefill worker of one model");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - arrived_;
  core_->metrics().tokenize_seconds.Observe(elapsed.count());
  std::lock_guard lock(mutex_);
  if (cancelled_) return End(absl::CancelledError("the request was cancelled"));
  if (!plan.ok()) return End(plan.status());
  plan_ = *std::move(plan);
  if (!plan_.has_seed) plan_.sampling.seed = core_->DrawNumber();
  detokenizer_.emplace(core_->text().tokenizer(), plan_.skip_special_tokens);
  core_->metrics().prompt_tokens.Increment(static_cast<double>(plan_.prompt.size()));
  StartAttempt();
}

void GenerateCall::StartAttempt() {
  absl::StatusOr<Route> route =
      core_->Choose({.prompt_tokens = static_cast<uint32_t>(plan_.prompt.size()),
                     .max_tokens = plan_.max_tokens,
                     .excluded = tried_});
  if (!route.ok()) return End(last_error_.ok() ? route.status() : last_error_);
  if (!tried_.empty()) core_->metrics().retries.Increment();
  route_ = *std::move(route);
  tried_.push_back(route_.decode);
  core_->directory().Begin(route_, static_cast<uint32_t>(plan_.prompt.size()));
  on_route_ = prefilling_ = true;

  v1::DecodeRequest request;
  request.set_request_id(request_id_);
  request.mutable_token_ids()->Assign(plan_.prompt.begin(), plan_.prompt.end());
  request.mutable_sampling()->set_temperature(plan_.sampling.temperature);
  request.mutable_sampling()->set_seed(plan_.sampling.seed);
  request.mutable_sampling()->set_max_tokens(plan_.max_tokens);
  request.mutable_stop_token_ids()->Assign(plan_.stop_ids.begin(), plan_.stop_ids.end());
  for (const std::string& worker : route_.prefill) request.add_prefill_workers(worker);
  attempt_ = std::make_shared<Attempt>(self_, *context_, core_->decode_channel(route_.decode));
  attempt_->Start(std::move(request), attempt_);
}

absl::Status GenerateCall::Detokenize(const v1::DecodeResponse& response) {
  for (int32_t id : response.token_ids()) {
    BATON_ASSIGN_OR_RETURN(const std::string text, detokenizer_->Push(id));
    message_.mutable_text()->append(text);
  }
  if (complete_) message_.mutable_text()->append(detokenizer_->Flush());
  return absl::OkStatus();
}

// False: the attempt is of no use any more.
bool GenerateCall::OnTokens(const v1::DecodeResponse& response) {
  std::lock_guard lock(mutex_);
  if (ended_ || cancelled_) return false;
  message_.Clear();
  if (!answered_) {
    answered_ = true;
    message_.set_request_id(request_id_);
    message_.set_seed(plan_.sampling.seed);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - arrived_;
    core_->metrics().time_to_first_token_seconds.Observe(elapsed.count());
    core_->directory().EndPrefill(route_, static_cast<uint32_t>(plan_.prompt.size()));
    prefilling_ = false;
  }
  complete_ = response.finish_reason() != v1::FINISH_REASON_UNSPECIFIED;
  if (const absl::Status status = Detokenize(response); !status.ok()) {
    last_error_ = absl::InternalError(absl::StrCat("detokenizing: ", status.message()));
    return false;
  }
  *message_.mutable_token_ids() = response.token_ids();
  if (plan_.return_logprobs) *message_.mutable_logprobs() = response.logprobs();
  token_count_ += static_cast<uint32_t>(response.token_ids_size());
  core_->metrics().generation_tokens.Increment(response.token_ids_size());
  if (complete_) {
    message_.set_finish_reason(response.finish_reason());
    *message_.mutable_usage() = response.usage();
    *message_.mutable_timings() = response.timings();
    const int count = response.token_ids_size();
    if (response.finish_reason() == v1::FINISH_REASON_STOP && count > 0) {
      message_.set_stop_token_id(response.token_ids(count - 1));
    }
  }
  writing_ = true;
  StartWrite(&message_);
  return true;
}

void GenerateCall::OnWriteDone(bool ok) {
  std::lock_guard lock(mutex_);
  writing_ = false;
  if (!ok) cancelled_ = true;  // The client is gone; the attempt's end ends the call.
  if (end_after_write_) return End(*std::exchange(end_after_write_, std::nullopt));
  if (attempt_ == nullptr) return;
  if (ok) {
    attempt_->ReadNext();
  } else {
    attempt_->GiveUp();
  }
}

void GenerateCall::OnCancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (attempt_ != nullptr) attempt_->Cancel();
}

bool GenerateCall::MayRetry(const absl::Status& status) const {
  const bool elsewhere = absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
  return elsewhere && !answered_ && !cancelled_ && tried_.size() < kMaxAttempts;
}

void GenerateCall::LeaveRoute() {
  if (prefilling_) {
    core_->directory().EndPrefill(route_, static_cast<uint32_t>(plan_.prompt.size()));
  }
  if (on_route_) core_->directory().End(route_);
  on_route_ = prefilling_ = false;
}

void GenerateCall::OnAttemptEnd(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  LeaveRoute();
  attempt_.reset();
  if (!last_error_.ok() && absl::IsInternal(last_error_)) return End(last_error_);
  if (status.ok()) {
    return End(complete_ ? absl::OkStatus()
                         : absl::InternalError("the decode worker's stream ended early"));
  }
  const bool late = context_->deadline() <= std::chrono::system_clock::now();
  if (late && absl::IsCancelled(status)) {
    return End(absl::DeadlineExceededError("the request's deadline passed"));
  }
  const absl::Status error = WorkerError(status, route_.decode, cancelled_);
  if (!MayRetry(error)) return End(error);
  spdlog::warn("msg=\"trying another decode worker\" request_id={} decode={} error={}", request_id_,
               route_.decode, LogText(error.ToString()));
  last_error_ = error;
  StartAttempt();
}

void GenerateCall::End(absl::Status status) {
  if (writing_) {
    end_after_write_ = std::move(status);
    return;
  }
  BATON_CHECK(!ended_);
  ended_ = true;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - arrived_;
  const std::string code = absl::StatusCodeToString(status.code());
  core_->metrics().CountRequest(code);
  core_->metrics().request_seconds.Observe(elapsed.count());
  if (entered_) core_->metrics().in_flight.Decrement();
  spdlog::info(
      "msg=\"request done\" request_id={} code={} decode={} attempts={} prompt_tokens={} "
      "completion_tokens={} ms={:.1f} error={}",
      request_id_, code, route_.decode, tried_.size(), plan_.prompt.size(), token_count_,
      elapsed.count() * 1e3, LogText(std::string(status.message())));
  Finish(ToGrpcStatus(status));
}

void GenerateCall::OnDone() {
  attempt_.reset();  // Before the gate may let the process go: it holds a call of its own.
  if (entered_) core_->gate().Leave();
  self_.reset();
}

}  // namespace baton
