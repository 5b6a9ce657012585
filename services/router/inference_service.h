// Inference over gRPC: what clients call. Handlers are thin; Generate is GenerateCall's. Owned by
// main; gRPC's threads.
#pragma once

#include "baton/v1/inference.grpc.pb.h"
#include "services/router/router_core.h"

namespace baton {

class InferenceService final : public v1::Inference::CallbackService {
 public:
  explicit InferenceService(RouterCore* core) : core_(core) {}  // Outlives the server.

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;

 private:
  absl::Status DetokenizeNow(const v1::DetokenizeRequest& request,
                             v1::DetokenizeResponse* response);
  absl::Status TokenizeNow(const v1::TokenizeRequest& request, v1::TokenizeResponse* response);

  RouterCore* const core_;
};

}  // namespace baton
