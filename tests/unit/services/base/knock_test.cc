#include "services/base/knock.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace baton {
namespace {

// A listening socket of any port.
class Listener {
 public:
  explicit Listener(int family) : fd_(socket(family, SOCK_STREAM, 0)) {
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    listens_ = bind(fd_, reinterpret_cast<sockaddr*>(&any), size) == 0 && listen(fd_, 8) == 0;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&any), &size);
    port_ = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(any).sin6_port
                                     : reinterpret_cast<sockaddr_in&>(any).sin_port);
  }
  ~Listener() { close(fd_); }
  bool listens() const { return listens_; }
  int port() const { return port_; }
  // Waits for a connection; whether its other end has been closed.
  bool TakeClosed() const {
    const int connection = accept(fd_, nullptr, nullptr);
    char byte;
    const bool closed = connection >= 0 && recv(connection, &byte, 1, 0) == 0;
    close(connection);
    return closed;
  }

 private:
  const int fd_;
  bool listens_ = false;
  int port_ = 0;
};

TEST(KnockTest, ConnectsAndClosesByAddressAndByAnyAddress) {
  const Listener listener(AF_INET);
  ASSERT_TRUE(listener.listens());
  for (const char* listen : {"127.0.0.1:0", "0.0.0.0:9400", ":9400", "9400"}) {
    Knock(listen, listener.port());
    EXPECT_TRUE(listener.TakeClosed()) << listen;
  }
}

TEST(KnockTest, KnowsVersion6) {
  const Listener listener(AF_INET6);
  if (!listener.listens()) GTEST_SKIP() << "no IPv6 here";
  for (const char* listen : {"[::]:0", "[::1]:9400"}) {
    Knock(listen, listener.port());
    EXPECT_TRUE(listener.TakeClosed()) << listen;
  }
}

TEST(KnockTest, WhereNobodyListensNothingHappens) {
  Knock("127.0.0.1:0", 1);
  Knock("no address:0", 1);
}

}  // namespace
}  // namespace baton
