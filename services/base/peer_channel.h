// Channels between the processes: plain text, kept alive, quick to notice and to reconnect a peer
// that died and came back.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/channel.h>

namespace baton {

std::shared_ptr<grpc::Channel> MakePeerChannel(const std::string& address);

}  // namespace baton
