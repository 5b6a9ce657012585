#include "kernels/kv/kv_exporter.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/kv/kv_handshake.h"
#include "kernels/kv/kv_socket.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

// For an importer to say hello, and to finish its self-test.
constexpr std::chrono::seconds kStageTimeout{5};
constexpr std::chrono::seconds kStopTimeout{1};
constexpr int kAcceptRetryMs = 100;
constexpr int kMaxConnections = KvExporter::kMaxPeers + 16;

// Stages of a connection. kTesting is one connection's at a time: all importers test on the same
// scratch pages. From kTesting on the peer may have the memory mapped.
enum class Stage { kHello, kWaiting, kTesting, kAttached };

struct Connection {
  UniqueFd fd;
  Stage stage = Stage::kHello;
  Clock::time_point deadline;  // Of kHello and kTesting.
  std::string incarnation;
  uint32_t pid = 0;
  bool silent = false;  // It has closed its end for sending: poll would report that for ever.

  bool mapped() const { return stage == Stage::kTesting || stage == Stage::kAttached; }
};

class SocketExporter : public KvExporter {
 public:
  SocketExporter(KvExporterOptions options, KvListener listener, KvExportHandle handle)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        memory_fd_(handle.fd),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    BATON_CHECK(wake_.valid());
    KvArenaDescriptor& descriptor = options_.descriptor;
    descriptor.incarnation = options_.incarnation;
    descriptor.transport = options_.transport->kind();
    descriptor.socket = listener_.name;
    descriptor.ipc_handle = std::move(handle.ipc_handle);
    descriptor.owner_pid = getpid();
    thread_ = std::thread([this] { Run(); });
  }

  ~SocketExporter() override {
    stopping_ = true;
    const uint64_t one = 1;
    BATON_CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }

  const KvArenaDescriptor& descriptor() const override { return options_.descriptor; }
  int peer_count() const override { return peer_count_; }

 private:
  void Run() {
    while (!stopping_) {
      Poll(NextDeadline(), true);
      ExpireStages();
      GrantTest();
    }
    // Memory must not be freed under an importer: half-closing asks it to unmap and close.
    listener_.fd = UniqueFd();
    connections_.remove_if([](const Connection& connection) { return !connection.mapped(); });
    for (Connection& connection : connections_) shutdown(connection.fd.get(), SHUT_WR);
    const Clock::time_point limit = Clock::now() + kStopTimeout;
    while (!connections_.empty() && Clock::now() < limit) Poll(limit, false);
  }

  Clock::time_point NextDeadline() const {
    Clock::time_point next = Clock::time_point::max();
    for (const Connection& connection : connections_)
      if (connection.stage == Stage::kHello || connection.stage == Stage::kTesting)
        next = std::min(next, connection.deadline);
    return next;
  }

  // Waits for the first event or the deadline and handles what happened.
  void Poll(Clock::time_point deadline, bool accepting) {
    int timeout_ms = -1;
    if (deadline != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      timeout_ms = static_cast<int>(std::max<int64_t>(left.count(), 0));
    }
    std::vector<pollfd> fds;
    for (const Connection& connection : connections_) {
      const short events = connection.silent ? 0 : POLLIN | POLLRDHUP;  // POLLHUP comes unasked.
      fds.push_back({.fd = connection.fd.get(), .events = events});
    }
    if (accepting) {
      fds.push_back({.fd = listener_.fd.get(), .events = POLLIN});
      fds.push_back({.fd = wake_.get(), .events = POLLIN});
    }
    if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
    size_t i = 0;
    for (auto it = connections_.begin(); it != connections_.end(); ++i) {
      const auto current = it++;
      if (fds[i].revents != 0) HandleEvent(current, fds[i].revents);
    }
    if (accepting && fds[i].revents != 0) Accept();
  }

  void Accept() {
    UniqueFd fd(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      // Out of descriptors: the caller stays in the queue, and this thread must not spin on it.
      if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, kAcceptRetryMs);
      return;
    }
    absl::Status status = CheckSameUser(fd.get());
    if (status.ok() && connections_.size() >= kMaxConnections) status = TooManyPeers();
    if (!status.ok()) {
      SendPacket(fd.get(), EncodeAnswer(status)).IgnoreError();
      return;
    }
    const uint32_t pid = PeerPid(fd.get());
    connections_.push_back(
        {.fd = std::move(fd), .deadline = Clock::now() + kStageTimeout, .pid = pid});
  }

  static absl::Status TooManyPeers() {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV arena peers: at most ", kMaxPeers, " at once"));
  }

  void HandleEvent(std::list<Connection>::iterator connection, short events) {
    // Read first: packets may stand before the end.
    if (events & POLLIN) {
      const absl::StatusOr<KvPacket> packet = ReceivePacket(connection->fd.get());
      if (packet.ok() && !HandlePacket(*connection, packet->bytes)) return Drop(connection);
      connection->silent = !packet.ok() && (events & POLLRDHUP);
    }
    // A full close alone says that the peer has unmapped: it closes the connection after that.
    if (events & (POLLHUP | POLLERR)) Drop(connection);
  }

  // False: the peer is refused and to be dropped.
  bool HandlePacket(Connection& connection, std::string_view packet) {
    if (connection.stage == Stage::kTesting && packet == kKvTestedPacket)
      connection.stage = Stage::kAttached;
    if (connection.stage != Stage::kHello) return true;
    const absl::StatusOr<KvHello> hello = ParseHello(packet);
    absl::Status status = hello.status();
    if (status.ok() && hello->arena_incarnation != options_.incarnation)
      status = absl::FailedPreconditionError(absl::StrCat("KV arena incarnation: wanted ",
                                                          hello->arena_incarnation, ", found ",
                                                          options_.incarnation));
    if (status.ok() && PastHelloCount() >= kMaxPeers) status = TooManyPeers();
    if (!status.ok()) {
      SendPacket(connection.fd.get(), EncodeAnswer(status)).IgnoreError();
      return false;
    }
    connection.incarnation = hello->importer_incarnation;
    connection.stage = Stage::kWaiting;
    return true;
  }

  void ExpireStages() {
    const Clock::time_point now = Clock::now();
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto current = it++;
      if (current->deadline > now) continue;
      if (current->stage == Stage::kHello) Drop(current);
      // A peer that is slow with its test has the memory all the same; only its turn is over.
      else if (current->stage == Stage::kTesting)
        current->stage = Stage::kAttached;
    }
  }

  void GrantTest() {
    const auto in_stage = [this](Stage stage) {
      return std::find_if(connections_.begin(), connections_.end(),
                          [stage](const Connection& c) { return c.stage == stage; });
    };
    for (auto it = in_stage(Stage::kWaiting);
         it != connections_.end() && in_stage(Stage::kTesting) == connections_.end();
         it = in_stage(Stage::kWaiting)) {
      // The owner must know the peer before the peer can write.
      if (MappedCount(it->incarnation) == 0) Report(KvPeerEvent::Kind::kAttached, *it);
      it->stage = Stage::kTesting;
      it->deadline = Clock::now() + kStageTimeout;
      ++peer_count_;
      if (!SendPacket(it->fd.get(), EncodeAnswer(absl::OkStatus()), memory_fd_).ok()) Drop(it);
    }
  }

  int PastHelloCount() const {
    return std::count_if(connections_.begin(), connections_.end(),
                         [](const Connection& c) { return c.stage != Stage::kHello; });
  }

  int MappedCount(std::string_view incarnation) const {
    return std::count_if(connections_.begin(), connections_.end(), [&](const Connection& c) {
      return c.mapped() && c.incarnation == incarnation;
    });
  }

  void Drop(std::list<Connection>::iterator connection) {
    Connection dropped = std::move(*connection);
    connections_.erase(connection);
    dropped.fd = UniqueFd();
    if (!dropped.mapped()) return;
    --peer_count_;
    if (MappedCount(dropped.incarnation) == 0) Report(KvPeerEvent::Kind::kGone, dropped);
  }

  void Report(KvPeerEvent::Kind kind, const Connection& connection) const {
    if (options_.on_peer)
      options_.on_peer(
          {.kind = kind, .incarnation = connection.incarnation, .pid = connection.pid});
  }

  KvExporterOptions options_;
  KvListener listener_;
  const int memory_fd_;
  UniqueFd wake_;
  std::list<Connection> connections_;  // The thread's alone.
  std::atomic<int> peer_count_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvExporter>> KvExporter::Start(KvExporterOptions options) {
  BATON_CHECK(options.transport != nullptr && options.memory != nullptr);
  if (options.memory->size_bytes() != options.descriptor.size_bytes)
    return absl::InvalidArgumentError(
        absl::StrCat("KV memory: wanted ", options.descriptor.size_bytes, " bytes for the layout",
                     ", found ", options.memory->size_bytes()));
  const std::string uuid = options.transport->device_uuid();
  if (!uuid.empty() && uuid != options.descriptor.device_uuid)
    return absl::InvalidArgumentError(absl::StrCat("arena device: wanted the transport's ", uuid,
                                                   ", found ", options.descriptor.device_uuid));
  BATON_ASSIGN_OR_RETURN(KvExportHandle handle, options.transport->Export(*options.memory));
  BATON_ASSIGN_OR_RETURN(KvListener listener, ListenOnRandomName());
  return std::make_unique<SocketExporter>(std::move(options), std::move(listener),
                                          std::move(handle));
}

}  // namespace baton
