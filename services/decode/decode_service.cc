#include "services/decode/decode_service.h"

#include <memory>
#include <mutex>
#include <utility>

#include "common/log.h"
#include "services/base/proto_convert.h"
#include "services/base/status_to_grpc.h"

namespace baton {
namespace {

absl::StatusOr<DecodeJob> ToJob(const v1::DecodeRequest& request) {
  absl::StatusOr<SamplingParams> sampling = FromProto(request.sampling());
  if (!sampling.ok()) return sampling.status();
  return DecodeJob{
      .request_id = request.request_id(),
      .prompt = {request.token_ids().begin(), request.token_ids().end()},
      .sampling = *sampling,
      .max_tokens = request.sampling().max_tokens(),
      .stop_ids = {request.stop_token_ids().begin(), request.stop_token_ids().end()},
      .prefill_workers = {request.prefill_workers().begin(), request.prefill_workers().end()}};
}

// One Generate call. Owns itself: shared with closures that wait in the sender's queue.
class GenerateStream final : public grpc::ServerWriteReactor<v1::DecodeResponse>,
                             public std::enable_shared_from_this<GenerateStream> {
 public:
  GenerateStream(DecodeEngine* engine, DrainGate* gate, SerialExecutor* sender)
      : engine_(engine), gate_(gate), sender_(sender) {}

  void Start(const v1::DecodeRequest& request) {
    self_ = shared_from_this();
    absl::Status entered = gate_->Enter();
    if (!entered.ok()) return End(entered);
    entered_ = true;
    absl::StatusOr<DecodeJob> job = ToJob(request);
    if (!job.ok()) return End(job.status());
    request_id_ = job->request_id;
    auto on_ready = [weak = weak_from_this(), sender = sender_] {
      sender->Post([weak] {
        if (const auto self = weak.lock()) self->Pump();
      });
    };
    stream_ = std::make_shared<TokenChannel>(job->max_tokens, std::move(on_ready));
    absl::StatusOr<SequenceId> id = engine_->Submit(*std::move(job), stream_);
    if (!id.ok()) return End(id.status());
    std::lock_guard lock(mutex_);
    sequence_id_ = *id;
    if (cancelled_) engine_->Cancel(sequence_id_);
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
    }
    if (ok) {
      Pump();
    } else {
      OnCancel();  // The client is gone; the engine's end of the stream will finish the call.
      Pump();
    }
  }

  void OnCancel() override {
    std::lock_guard lock(mutex_);
    if (std::exchange(cancelled_, true)) return;
    if (sequence_id_ != 0) engine_->Cancel(sequence_id_);
  }

  void OnDone() override {
    if (entered_) gate_->Leave();
    self_.reset();
  }

 private:
  // One write at a time: what the engine publishes meanwhile goes with the next one.
  void Pump() {
    std::lock_guard lock(mutex_);
    if (writing_ || finished_) return;
    const TokenChannel::Batch batch = stream_->Take();
    if (batch.tokens.empty() && !batch.ended) return;
    if (batch.ended) {
      finished_ = true;
      Log(batch.end);
      if (!batch.end.status.ok()) return Finish(ToGrpcStatus(batch.end.status));
      message_ = ToProto(batch);
      StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
      return;
    }
    message_ = ToProto(batch);
    writing_ = true;
    StartWrite(&message_);
  }

  void End(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    finished_ = true;
    Finish(ToGrpcStatus(status));
  }

  void Log(const StreamEnd& end) const {
    spdlog::info(
        "msg=\"request done\" request_id={} code={} prompt_tokens={} completion_tokens={} "
        "queue_ms={:.1f} prefill_ms={:.1f} decode_ms={:.1f}",
        request_id_, absl::StatusCodeToString(end.status.code()), end.prompt_tokens,
        end.completion_tokens, end.queue_ms, end.prefill_ms, end.decode_ms);
  }

  DecodeEngine* const engine_;
  DrainGate* const gate_;
  SerialExecutor* const sender_;
  std::shared_ptr<GenerateStream> self_;  // Until OnDone.
  std::string request_id_;
  bool entered_ = false;
  std::shared_ptr<TokenChannel> stream_;
  std::mutex mutex_;  // Guards all below.
  SequenceId sequence_id_ = 0;
  v1::DecodeResponse message_;
  bool writing_ = false;
  bool finished_ = false;
  bool cancelled_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::DecodeResponse>* DecodeService::Generate(
    grpc::CallbackServerContext*, const v1::DecodeRequest* request) {
  auto stream = std::make_shared<GenerateStream>(engine_, gate_, sender_);
  stream->Start(*request);
  return stream.get();
}

}  // namespace baton
