// The connection between an arena's owner and an importer: an abstract Unix socket of packets,
// which carries the memory's file descriptor and whose end is the death notice of the peer. Nothing
// of it is in a file system, so nothing is left behind. Thin wrappers around system calls; any
// thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kv/unique_fd.h"

namespace baton {

inline constexpr size_t kMaxKvPacketBytes = 4096;

// Listens, non-blocking, on "baton-kv-" and 32 random hex digits. Errors are Internal.
struct KvListener {
  UniqueFd fd;
  std::string name;  // Without the leading NUL.
};
absl::StatusOr<KvListener> ListenOnRandomName();

// Connects; later receives and sends give up after `timeout`. Unavailable: nobody listens.
absl::StatusOr<UniqueFd> ConnectByName(const std::string& name, std::chrono::milliseconds timeout);

// OK if the other end runs under this process' effective user id; PermissionDenied with both.
absl::Status CheckSameUser(int socket);
pid_t PeerPid(int socket);  // As seen from this process' PID namespace; 0 if outside.

// Sends one packet, with a descriptor unless fd is -1. Unavailable: the peer is gone or does not
// take it in time.
absl::Status SendPacket(int socket, std::string_view bytes, int fd = -1);

// Receives one packet. Unavailable: the peer is gone or silent. InvalidArgument: longer than
// kMaxKvPacketBytes.
struct KvPacket {
  std::string bytes;
  UniqueFd fd;
};
absl::StatusOr<KvPacket> ReceivePacket(int socket);

}  // namespace baton
