// The PrefillClient that talks gRPC: one channel per worker address, kept for the process' life.
// Thread-safe. Destruction waits for calls in flight, which it cancels.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <grpcpp/client_context.h>

#include "baton/v1/worker.grpc.pb.h"
#include "services/decode/prefill_client.h"

namespace baton {

class GrpcPrefillClient final : public PrefillClient {
 public:
  // A worker that comes back may be known as ready before this process' channel has tried to
  // connect again (peer_channel.cc: after half a second at most): Attach waits `connect_timeout`
  // for it. One that is being connected to is there, if busy: it has as long as the call.
  explicit GrpcPrefillClient(
      std::chrono::milliseconds connect_timeout = std::chrono::milliseconds(1000))
      : connect_timeout_(connect_timeout) {}
  ~GrpcPrefillClient() override;

  void Attach(const std::string& address, const KvArenaDescriptor& arena,
              std::function<void(absl::StatusOr<AttachAnswer>)> done) override;
  uint64_t Prefill(const std::string& address, const PrefillCall& call,
                   std::function<void(absl::StatusOr<PrefillAnswer>)> done) override;
  void CancelPrefill(uint64_t call_id) override;
  void Revoke(const std::string& address, const RevokeCall& call,
              std::function<void(absl::Status)> done) override;

 private:
  // Kept by calls_ while the call is in flight, and not by what is called at its end: that dies in
  // one of gRPC's threads, maybe after this object, and whoever lets go of the last channel joins
  // them.
  using ContextPointer = std::shared_ptr<grpc::ClientContext>;

  struct Peer {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::PrefillWorker::Stub> stub;
  };
  const Peer& PeerAt(const std::string& address);
  uint64_t Begin(const ContextPointer& context, std::chrono::milliseconds timeout);
  void End(uint64_t call_id);

  const std::chrono::milliseconds connect_timeout_;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable idle_;
  std::map<std::string, Peer> peers_;  // Entries stay where they are.
  std::map<uint64_t, ContextPointer> calls_;
  uint64_t next_call_id_ = 1;
};

}  // namespace baton
