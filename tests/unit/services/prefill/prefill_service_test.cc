#include "services/prefill/prefill_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "kernels/kv/kv_transport_factory.h"
#include "services/base/grpc_server.h"
#include "services/base/peer_channel.h"
#include "tests/fakes/scripted_backend.h"

namespace baton {
namespace {

class PrefillServiceTest : public testing::Test {
 protected:
  PrefillServiceTest() {
    engine_ = std::make_unique<PrefillEngine>(
        PrefillEngineOptions{.runner = std::make_unique<ScriptedPrefillRunner>(64),
                             .metrics = &metrics_,
                             .vocab_size = 1000});
    importer_ = *KvImporter::Start({.incarnation = "worker", .transport = transport_.get()});
    service_ = std::make_unique<PrefillService>(PrefillServiceOptions{.incarnation = "worker",
                                                                      .backend = &backend_,
                                                                      .importer = importer_.get(),
                                                                      .engine = engine_.get(),
                                                                      .gate = &gate_,
                                                                      .metrics = &metrics_});
    server_ = *GrpcServer::Start("127.0.0.1:0", {service_.get()});
    stub_ = v1::PrefillWorker::NewStub(MakePeerChannel(server_->address()));
  }
  absl::StatusCode Prefill(const v1::PrefillRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return static_cast<absl::StatusCode>(
        stub_->Prefill(&context, request, &response_).error_code());
  }
  absl::StatusCode Revoke(const std::string& incarnation) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::RevokeLeaseRequest request;
    request.set_arena_incarnation("gone");
    request.set_lease_id(1);
    request.set_prefill_incarnation(incarnation);
    v1::RevokeLeaseResponse response;
    return static_cast<absl::StatusCode>(
        stub_->RevokeLease(&context, request, &response).error_code());
  }

  ScriptedDecodeState state_;
  ScriptedBackend backend_{&state_};
  std::unique_ptr<KvTransport> transport_ = *MakeKvTransport({});
  Metrics registry_{"prefill"};
  PrefillMetrics metrics_{registry_};
  DrainGate gate_;
  std::unique_ptr<PrefillEngine> engine_;
  std::unique_ptr<KvImporter> importer_;
  std::unique_ptr<PrefillService> service_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<v1::PrefillWorker::Stub> stub_;
  v1::PrefillResponse response_;
};

TEST_F(PrefillServiceTest, AnUnknownArenaOrAnotherProcessIsNotFound) {
  v1::PrefillRequest request;
  request.add_token_ids(1);
  request.set_prefill_incarnation("before me");
  EXPECT_EQ(Prefill(request), absl::StatusCode::kNotFound);
  request.set_prefill_incarnation("worker");
  request.mutable_lease()->set_arena_incarnation("unknown");
  EXPECT_EQ(Prefill(request), absl::StatusCode::kNotFound);
}

TEST_F(PrefillServiceTest, ConfirmsRevocationsForItselfOnly) {
  EXPECT_EQ(Revoke("worker"), absl::StatusCode::kOk);
  EXPECT_EQ(Revoke("before me"), absl::StatusCode::kFailedPrecondition);
}

TEST_F(PrefillServiceTest, RefusesAnArenaThatDiffers) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1::AttachArenaRequest request;
  v1::AttachArenaResponse response;
  request.mutable_arena()->set_incarnation("x");
  request.mutable_arena()->set_kv_heads(77);
  request.mutable_arena()->add_groups();
  request.mutable_arena()->add_groups();
  const grpc::Status status = stub_->AttachArena(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_message().find("kv_heads: wanted 1, found 77"), std::string::npos)
      << status.error_message();
}

TEST_F(PrefillServiceTest, ADrainingWorkerRefuses) {
  gate_.BeginDrain();
  EXPECT_EQ(Prefill({}), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton
