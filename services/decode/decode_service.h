// DecodeWorker over gRPC: hands requests to the engine and its tokens to the stream. Owned by main;
// gRPC's threads.
#pragma once

#include "baton/v1/worker.grpc.pb.h"
#include "services/base/drain_gate.h"
#include "services/base/serial_executor.h"
#include "services/decode/decode_engine.h"

namespace baton {

class DecodeService final : public v1::DecodeWorker::CallbackService {
 public:
  // All must outlive the server. `sender` serialises and writes messages, so that the engine's
  // thread never calls gRPC.
  DecodeService(DecodeEngine* engine, DrainGate* gate, SerialExecutor* sender)
      : engine_(engine), gate_(gate), sender_(sender) {}

  grpc::ServerWriteReactor<v1::DecodeResponse>* Generate(grpc::CallbackServerContext* context,
                                                         const v1::DecodeRequest* request) override;

 private:
  DecodeEngine* const engine_;
  DrainGate* const gate_;
  SerialExecutor* const sender_;
};

}  // namespace baton
