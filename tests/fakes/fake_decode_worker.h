// Decode workers and prefill workers as the router sees them: WorkerStatus and DecodeWorker over
// real gRPC, with answers that a test sets. And a router core over them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/base/grpc_server.h"
#include "services/base/peer_channel.h"
#include "services/base/status_service.h"
#include "services/router/router_core.h"

namespace baton {

// Streams `tokens`, then ends with `status`.
class FakeDecodeWorker final : public v1::DecodeWorker::Service {
 public:
  std::vector<int32_t> tokens = {902, 85, 1071};
  grpc::Status status;
  bool hang = false;  // After the tokens, until the call is cancelled.
  std::atomic<int> calls{0};
  std::atomic<int> cancelled{0};
  v1::DecodeRequest last_request;

  grpc::Status Generate(grpc::ServerContext* context, const v1::DecodeRequest* request,
                        grpc::ServerWriter<v1::DecodeResponse>* writer) override {
    last_request = *request;
    ++calls;
    for (size_t i = 0; i < tokens.size(); ++i) {
      v1::DecodeResponse message;
      message.add_token_ids(tokens[i]);
      message.add_logprobs(-0.5f);
      if (status.ok() && !hang && i + 1 == tokens.size()) {
        message.set_finish_reason(v1::FINISH_REASON_LENGTH);
        message.mutable_usage()->set_completion_tokens(static_cast<uint32_t>(tokens.size()));
      }
      writer->Write(message);
    }
    while (hang && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (hang) ++cancelled;
    return hang ? grpc::Status::CANCELLED : status;
  }
};

// A router core with North Nano's text side over two fake decode workers and one prefill worker,
// all ready.
class FakeCluster {
 public:
  FakeCluster() {
    const std::string model = std::string(BATON_SOURCE_DIR) + "/deploy/models/north-nano";
    RouterCoreOptions options{.text = *ModelText::Load(model),
                              .facts = *LoadModelFacts(model),
                              .model_name = "nano",
                              .directory = &directory,
                              .metrics = &metrics,
                              .max_in_flight = 8,
                              .seed = 1};
    for (auto& worker : workers) {
      servers.push_back(*GrpcServer::Start("127.0.0.1:0", {&worker}));
      const std::string address = servers.back()->address();
      options.decode_channels[address] = MakePeerChannel(address);
      directory.AddWorker(address, WorkerRole::kDecode);
      Report(address, WorkerRole::kDecode);
    }
    directory.AddWorker("prefill:1", WorkerRole::kPrefill);
    Report("prefill:1", WorkerRole::kPrefill);
    core = std::make_unique<RouterCore>(std::move(options));
  }

  void Report(const std::string& address, WorkerRole role, bool ready = true) {
    directory.OnReport(
        address,
        {.role = role, .ready = ready, .max_rows = 4, .max_waiting = 4, .max_context_tokens = 1000},
        std::chrono::steady_clock::now() + std::chrono::hours(1));
  }
  uint32_t in_flight() const {
    uint32_t count = 0;
    for (const auto& view : directory.Snapshot(std::chrono::steady_clock::now())) {
      count += view.in_flight;
    }
    return count;
  }

  Metrics registry{"router"};
  RouterMetrics metrics{registry};
  WorkerDirectory directory{std::chrono::hours(1)};
  FakeDecodeWorker workers[2];
  std::vector<std::unique_ptr<GrpcServer>> servers;
  std::unique_ptr<RouterCore> core;
};

}  // namespace baton
