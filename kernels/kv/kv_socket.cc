#include "kernels/kv/kv_socket.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace baton {
namespace {

absl::Status ErrnoError(absl::StatusCode code, const std::string& what) {
  return absl::Status(code, absl::StrCat(what, ": ", std::strerror(errno)));
}

std::string RandomHex() {
  std::array<char, 16> bytes;
  BATON_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return absl::BytesToHexString(std::string(bytes.data(), bytes.size()));
}

struct Address {
  sockaddr_un value = {};
  socklen_t length = 0;
};

absl::StatusOr<Address> AbstractAddress(const std::string& name) {
  Address address;
  address.value.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address.value.sun_path))
    return absl::InvalidArgumentError(absl::StrCat("socket name: wanted 1 to ",
                                                   sizeof(address.value.sun_path) - 1,
                                                   " bytes, found ", name.size()));
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());
  address.length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return address;
}

absl::StatusOr<ucred> Credentials(int socket) {
  ucred credentials = {};
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
    return ErrnoError(absl::StatusCode::kInternal, "KV socket peer credentials");
  return credentials;
}

}  // namespace

absl::StatusOr<KvListener> ListenOnRandomName() {
  KvListener listener{.name = "baton-kv-" + RandomHex()};
  BATON_ASSIGN_OR_RETURN(const Address address, AbstractAddress(listener.name));
  listener.fd = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.fd.valid() ||
      bind(listener.fd.get(), reinterpret_cast<const sockaddr*>(&address.value), address.length) ||
      listen(listener.fd.get(), SOMAXCONN))
    return ErrnoError(absl::StatusCode::kInternal, "KV socket");
  return listener;
}

absl::StatusOr<UniqueFd> ConnectByName(const std::string& name, std::chrono::milliseconds timeout) {
  BATON_ASSIGN_OR_RETURN(const Address address, AbstractAddress(name));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(absl::StatusCode::kInternal, "KV socket");
  const timeval limit = {.tv_sec = timeout.count() / 1000,
                         .tv_usec = timeout.count() % 1000 * 1000};
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
      setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)))
    return ErrnoError(absl::StatusCode::kInternal, "KV socket timeout");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.value), address.length) != 0)
    return ErrnoError(absl::StatusCode::kUnavailable,
                      absl::StrCat("connecting to the arena's owner at @", name));
  return fd;
}

absl::Status CheckSameUser(int socket) {
  BATON_ASSIGN_OR_RETURN(const ucred peer, Credentials(socket));
  if (peer.uid == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("KV socket peer: wanted user id ", geteuid(),
                                                  ", found ", peer.uid, " (pid ", peer.pid, ")"));
}

pid_t PeerPid(int socket) {
  const absl::StatusOr<ucred> peer = Credentials(socket);
  return peer.ok() ? peer->pid : 0;
}

absl::Status SendPacket(int socket, std::string_view bytes, int fd) {
  iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    *header = {
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  ssize_t sent = 0;
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return ErrnoError(absl::StatusCode::kUnavailable, "sending to the KV socket's peer");
}

absl::StatusOr<KvPacket> ReceivePacket(int socket) {
  std::string bytes(kMaxKvPacketBytes, '\0');
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  // Room for one descriptor: the kernel closes what a peer sends beyond it.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  ssize_t received = 0;
  do received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received < 0)
    return ErrnoError(absl::StatusCode::kUnavailable, "receiving from the KV socket's peer");
  KvPacket packet;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    packet.fd = UniqueFd(fd);
  }
  if (received == 0) return absl::UnavailableError("the KV socket's peer closed the connection");
  if (message.msg_flags & MSG_TRUNC)
    return absl::InvalidArgumentError(
        absl::StrCat("KV socket packet: wanted at most ", kMaxKvPacketBytes, " bytes, found more"));
  bytes.resize(received);
  packet.bytes = std::move(bytes);
  return packet;
}

}  // namespace baton
