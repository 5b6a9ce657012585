#include "services/decode/grpc_prefill_client.h"

#include <grpcpp/alarm.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/peer_channel.h"
#include "services/base/status_to_grpc.h"
#include "services/decode/kv_convert.h"

namespace baton {
namespace {

// Mapping an arena and its self-test take milliseconds; a worker that computes is not slower.
constexpr std::chrono::milliseconds kAttachTimeout(10000);
// The answer may wait for the end of a chunk; the call is repeated when it takes longer.
constexpr std::chrono::milliseconds kRevokeTimeout(5000);

template <typename Request, typename Response>
struct Exchange {
  Request request;
  Response response;
};

}  // namespace

GrpcPrefillClient::~GrpcPrefillClient() {
  std::unique_lock lock(mutex_);
  for (auto& [id, context] : calls_) context->TryCancel();
  idle_.wait(lock, [this] { return calls_.empty(); });
}

const GrpcPrefillClient::Peer& GrpcPrefillClient::PeerAt(const std::string& address) {
  std::lock_guard lock(mutex_);
  Peer& peer = peers_[address];
  if (peer.stub == nullptr) {
    peer.channel = MakePeerChannel(address);
    peer.stub = v1::PrefillWorker::NewStub(peer.channel);
  }
  return peer;
}

uint64_t GrpcPrefillClient::Begin(const ContextPointer& context,
                                  std::chrono::milliseconds timeout) {
  context->set_deadline(std::chrono::system_clock::now() + timeout);
  std::lock_guard lock(mutex_);
  const uint64_t id = next_call_id_++;
  calls_.emplace(id, context);
  return id;
}

void GrpcPrefillClient::End(uint64_t call_id) {
  std::lock_guard lock(mutex_);
  calls_.erase(call_id);
  // Under the lock: the destructor may free this object as soon as it sees no calls.
  if (calls_.empty()) idle_.notify_all();
}

void GrpcPrefillClient::Attach(const std::string& address, const KvArenaDescriptor& arena,
                               std::function<void(absl::StatusOr<AttachAnswer>)> done) {
  auto exchange = std::make_shared<Exchange<v1::AttachArenaRequest, v1::AttachArenaResponse>>();
  *exchange->request.mutable_arena() = ToProto(arena);
  auto context = std::make_shared<grpc::ClientContext>();
  context->set_wait_for_ready(true);
  const uint64_t id = Begin(context, kAttachTimeout);
  const Peer& peer = PeerAt(address);
  // Of the alarm, which ends with the call, and of the call.
  auto unconnected = std::make_shared<std::atomic<bool>>(false);
  auto alarm = std::make_shared<grpc::Alarm>();
  alarm->Set(
      std::chrono::system_clock::now() + connect_timeout_,
      [call = std::weak_ptr(context), of = std::weak_ptr(peer.channel), unconnected](bool expired) {
        if (!expired) return;
        const auto waiting = call.lock();
        const auto channel = of.lock();
        if (waiting == nullptr || channel == nullptr) return;
        const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/false);
        if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_CONNECTING) return;
        *unconnected = true;
        waiting->TryCancel();
      });
  peer.stub->async()->AttachArena(
      context.get(), &exchange->request, &exchange->response,
      [this, id, exchange, address, alarm, unconnected,
       done = std::move(done)](const grpc::Status& status) {
        if (status.ok()) {
          const auto& response = exchange->response;
          done(AttachAnswer{.incarnation = response.incarnation(),
                            .write_bytes_per_second = response.write_bytes_per_second(),
                            .read_bytes_per_second = response.read_bytes_per_second()});
        } else if (*unconnected) {
          done(absl::UnavailableError(absl::StrCat("no connection to ", address, " within ",
                                                   connect_timeout_.count(), " ms")));
        } else {
          done(FromGrpcStatus(status));
        }
        End(id);
      });
}

uint64_t GrpcPrefillClient::Prefill(const std::string& address, const PrefillCall& call,
                                    std::function<void(absl::StatusOr<PrefillAnswer>)> done) {
  auto exchange = std::make_shared<Exchange<v1::PrefillRequest, v1::PrefillResponse>>();
  v1::PrefillRequest& request = exchange->request;
  request.set_request_id(call.request_id);
  request.set_prefill_incarnation(call.prefill_incarnation);
  request.mutable_token_ids()->Assign(call.prompt.begin(), call.prompt.end());
  *request.mutable_lease() = ToProto(call.lease);
  request.mutable_sampling()->set_temperature(call.sampling.temperature);
  request.mutable_sampling()->set_seed(call.sampling.seed);
  auto context = std::make_shared<grpc::ClientContext>();
  const uint64_t id = Begin(context, call.timeout);
  PeerAt(address).stub->async()->Prefill(
      context.get(), &request, &exchange->response,
      [this, id, exchange, done = std::move(done)](const grpc::Status& status) {
        if (status.ok()) {
          const auto& response = exchange->response;
          done(PrefillAnswer{
              .first = {.token = response.first_token(), .logprob = response.logprob()},
              .queue_ms = response.queue_ms(),
              .compute_ms = response.compute_ms(),
              .kv_bytes_written = response.kv_bytes_written()});
        } else {
          done(FromGrpcStatus(status));
        }
        End(id);
      });
  return id;
}

void GrpcPrefillClient::CancelPrefill(uint64_t call_id) {
  ContextPointer context;
  {
    std::lock_guard lock(mutex_);
    const auto it = calls_.find(call_id);
    if (it == calls_.end()) return;
    context = it->second;
  }
  context->TryCancel();
}

void GrpcPrefillClient::Revoke(const std::string& address, const RevokeCall& call,
                               std::function<void(absl::Status)> done) {
  auto exchange = std::make_shared<Exchange<v1::RevokeLeaseRequest, v1::RevokeLeaseResponse>>();
  exchange->request.set_arena_incarnation(call.arena_incarnation);
  exchange->request.set_prefill_incarnation(call.prefill_incarnation);
  exchange->request.set_lease_id(call.lease_id);
  auto context = std::make_shared<grpc::ClientContext>();
  const uint64_t id = Begin(context, kRevokeTimeout);
  PeerAt(address).stub->async()->RevokeLease(
      context.get(), &exchange->request, &exchange->response,
      [this, id, exchange, done = std::move(done)](const grpc::Status& status) {
        done(FromGrpcStatus(status));
        End(id);
      });
}

}  // namespace baton
