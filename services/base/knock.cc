#include "services/base/knock.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace baton {
namespace {

// The host of `listen`, to connect to.
std::string HostOf(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  std::string host = colon == std::string::npos ? "" : listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (host == "::") return "::1";
  return host.empty() || host == "0.0.0.0" ? "127.0.0.1" : host;
}

}  // namespace

void Knock(const std::string& listen, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(HostOf(listen).c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return;
  const int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    (void)connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace baton
