#include "services/base/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// A prompt of a million token ids is about 4 MiB.
constexpr int kMaxReceiveBytes = 64 << 20;
// Probes and peers may ping an idle connection this often without being told off.
constexpr int kMinPingIntervalMs = 5000;

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const std::string& listen, const std::vector<grpc::Service*>& services,
    const std::vector<std::string>& health_names) {
  const size_t colon = listen.rfind(':');
  // gRPC takes a port modulo 65536.
  uint32_t wanted_port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(listen.substr(colon + 1), &wanted_port) ||
      wanted_port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen address: wanted host:port with a port up to 65535, found \"", listen, "\""));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  // Two processes on one port would share its connections at random.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port <= 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", listen, ": the port is taken, or the address is not this machine's"));
  }
  std::string address = absl::StrCat(listen.substr(0, colon), ":", port);
  std::unique_ptr<GrpcServer> result(new GrpcServer(std::move(server), std::move(address)));
  grpc::HealthCheckServiceInterface* const health = result->server_->GetHealthCheckService();
  for (const std::string& name : health_names) health->SetServingStatus(name, false);
  result->SetServing(false);
  return result;
}

GrpcServer::GrpcServer(std::unique_ptr<grpc::Server> server, std::string address)
    : server_(std::move(server)), address_(std::move(address)) {}

GrpcServer::~GrpcServer() { Stop(std::chrono::milliseconds(0)); }

void GrpcServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void GrpcServer::Stop(std::chrono::milliseconds grace) {
  server_->Shutdown(std::chrono::system_clock::now() + grace);
}

}  // namespace baton
