// A gRPC server with the settings, health and reflection that all three processes share. Owned by
// main; its methods may be called from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace baton {

class GrpcServer {
 public:
  // Listens on `listen` (host:port; port 0 picks a free one) and serves `services`, which must
  // outlive the server, next to grpc.health.v1 and reflection. Health is NOT_SERVING until
  // SetServing(true), for the whole process (the empty name) and for each of `health_names`, full
  // names of services. Unavailable if the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const std::string& listen, const std::vector<grpc::Service*>& services,
      const std::vector<std::string>& health_names = {});
  ~GrpcServer();

  // host:port with the port that was picked.
  const std::string& address() const { return address_; }
  void SetServing(bool serving);
  // Stops accepting calls, waits up to `grace` for those in flight, cancels the rest.
  void Stop(std::chrono::milliseconds grace);

 private:
  GrpcServer(std::unique_ptr<grpc::Server> server, std::string address);

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace baton
