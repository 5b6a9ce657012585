#include "services/base/peer_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

namespace baton {
namespace {

constexpr int kKeepaliveMs = 10000;
constexpr int kKeepaliveTimeoutMs = 5000;
// A connection that is not there after this long is tried again. gRPC takes it from the "minimum
// reconnect backoff"; the pause between tries is the next two.
constexpr int kConnectTimeoutMs = 5000;
constexpr int kFirstReconnectMs = 50;
constexpr int kMaxReconnectMs = 500;
constexpr int kMaxAnswerBytes = 64 << 20;

}  // namespace

std::shared_ptr<grpc::Channel> MakePeerChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // Peers must not share a connection through the process-wide pool: a worker's death is noticed
  // per channel.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy variable in the environment must not reroute traffic between the processes.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace baton
