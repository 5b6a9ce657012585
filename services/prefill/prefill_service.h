// PrefillWorker over gRPC: attaches arenas, hands prompts to the engine, confirms revocations.
// Owned by main; gRPC's threads.
#pragma once

#include <string>

#include "baton/v1/worker.grpc.pb.h"
#include "kernels/kv/kv_importer.h"
#include "services/base/drain_gate.h"
#include "services/base/serial_executor.h"
#include "services/prefill/prefill_engine.h"

namespace baton {

struct PrefillServiceOptions {
  std::string incarnation;
  const Backend* backend = nullptr;  // All outlive the server.
  KvImporter* importer = nullptr;
  PrefillEngine* engine = nullptr;
  DrainGate* gate = nullptr;
  PrefillMetrics* metrics = nullptr;
};

class PrefillService final : public v1::PrefillWorker::CallbackService {
 public:
  explicit PrefillService(PrefillServiceOptions options) : options_(std::move(options)) {}

  grpc::ServerUnaryReactor* AttachArena(grpc::CallbackServerContext* context,
                                        const v1::AttachArenaRequest* request,
                                        v1::AttachArenaResponse* response) override;
  grpc::ServerUnaryReactor* Prefill(grpc::CallbackServerContext* context,
                                    const v1::PrefillRequest* request,
                                    v1::PrefillResponse* response) override;
  grpc::ServerUnaryReactor* RevokeLease(grpc::CallbackServerContext* context,
                                        const v1::RevokeLeaseRequest* request,
                                        v1::RevokeLeaseResponse* response) override;

 private:
  absl::Status Attach(const v1::AttachArenaRequest& request, v1::AttachArenaResponse* response);
  absl::StatusOr<PrefillJob> ToJob(const v1::PrefillRequest& request) const;

  const PrefillServiceOptions options_;
  SerialExecutor attacher_;  // Attaching maps memory and waits for the owner's handshake.
};

}  // namespace baton
