#include "kernels/kv/kv_importer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/kv/kv_handshake.h"
#include "kernels/kv/kv_socket.h"

namespace baton {
namespace {

// For the owner's answer: other importers may be at their self-test.
constexpr std::chrono::seconds kAnswerTimeout{15};

class MappedArena : public KvImportedArena {
 public:
  struct Tested {
    KvSelfTestResult self_test;
    bool on_peer_device = false;
  };
  MappedArena(KvArenaDescriptor descriptor, UniqueFd connection, std::unique_ptr<KvMemory> memory,
              Tested tested)
      : descriptor_(std::move(descriptor)),
        layout_(LayoutOf(descriptor_)),
        tested_(tested),
        connection_(std::move(connection)),
        memory_(std::move(memory)) {}

  const KvArenaDescriptor& descriptor() const override { return descriptor_; }
  const KvLayout& layout() const override { return layout_; }
  void* base() const override { return memory_->base(); }
  const KvSelfTestResult& self_test() const override { return tested_.self_test; }
  bool owner_gone() const override { return owner_gone_; }
  bool on_peer_device() const override { return tested_.on_peer_device; }

  int connection() const { return connection_.get(); }
  void MarkOwnerGone() { owner_gone_ = true; }

 private:
  KvArenaDescriptor descriptor_;
  KvLayout layout_;
  Tested tested_;
  std::atomic<bool> owner_gone_ = false;
  // Destroyed in reverse order: the memory is unmapped before the connection's end says so.
  UniqueFd connection_;
  std::unique_ptr<KvMemory> memory_;
};

class SocketImporter : public KvImporter {
 public:
  explicit SocketImporter(KvImporterOptions options)
      : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    BATON_CHECK(wake_.valid());
    thread_ = std::thread([this] { Run(); });
  }

  ~SocketImporter() override {
    stopping_ = true;
    Wake();
    thread_.join();
  }

  absl::StatusOr<std::shared_ptr<const KvImportedArena>> Attach(
      const KvArenaDescriptor& found, const KvArenaDescriptor& wanted) override {
    BATON_RETURN_IF_ERROR(CheckCompatible(wanted, found));
    if (auto attached = Find(found.incarnation)) return attached;
    if (arena_count() >= kMaxArenas) return TooManyArenas();
    BATON_ASSIGN_OR_RETURN(std::shared_ptr<MappedArena> arena, Open(found));
    {
      std::lock_guard lock(mutex_);
      // Another thread may have attached it meanwhile; then this second mapping goes again.
      const auto at = arenas_.find(found.incarnation);
      if (at != arenas_.end()) return at->second;
      if (arenas_.size() >= kMaxArenas) return TooManyArenas();
      arenas_.emplace(found.incarnation, arena);
    }
    Wake();
    return arena;
  }

  std::shared_ptr<const KvImportedArena> Find(std::string_view incarnation) const override {
    std::lock_guard lock(mutex_);
    const auto at = arenas_.find(incarnation);
    return at == arenas_.end() ? nullptr : at->second;
  }

  int arena_count() const override {
    std::lock_guard lock(mutex_);
    return static_cast<int>(arenas_.size());
  }

 private:
  static absl::Status TooManyArenas() {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV arenas: at most ", kMaxArenas, " at once"));
  }

  absl::StatusOr<std::shared_ptr<MappedArena>> Open(const KvArenaDescriptor& found) const {
    BATON_ASSIGN_OR_RETURN(UniqueFd connection, ConnectByName(found.socket, kAnswerTimeout));
    BATON_RETURN_IF_ERROR(CheckSameUser(connection.get()));
    BATON_RETURN_IF_ERROR(
        SendPacket(connection.get(), EncodeHello({.arena_incarnation = found.incarnation,
                                                  .importer_incarnation = options_.incarnation})));
    BATON_ASSIGN_OR_RETURN(const KvPacket answer, ReceivePacket(connection.get()));
    BATON_RETURN_IF_ERROR(ParseAnswer(answer.bytes));
    BATON_ASSIGN_OR_RETURN(std::unique_ptr<KvMemory> memory,
                           options_.transport->Import(found, answer.fd.get()));
    BATON_ASSIGN_OR_RETURN(const KvSelfTestResult result, Test(found, *memory));
    BATON_RETURN_IF_ERROR(SendPacket(connection.get(), kKvTestedPacket));
    const std::string own_device = options_.transport->device_uuid();
    const MappedArena::Tested tested{
        .self_test = result,
        .on_peer_device = !own_device.empty() && own_device != found.device_uuid};
    return std::make_shared<MappedArena>(found, std::move(connection), std::move(memory), tested);
  }

  // Tests the scratch page of every group; the figures are those of the largest page.
  absl::StatusOr<KvSelfTestResult> Test(const KvArenaDescriptor& found, KvMemory& memory) const {
    KvSelfTestResult result;
    uint64_t largest_bytes = 0;
    for (size_t i = 0; i < found.groups.size(); ++i) {
      const KvGroupLayout& group = found.groups[i];
      if (group.layer_count == 0) continue;
      const KvTransport::SelfTestRange range = {
          .offset_bytes = group.offset_bytes + found.scratch_pages[i] * group.page_bytes,
          .size_bytes = group.page_bytes,
          .seed = std::hash<std::string>{}(options_.incarnation)};
      BATON_ASSIGN_OR_RETURN(const KvSelfTestResult one,
                             options_.transport->SelfTest(memory, range));
      if (group.page_bytes <= largest_bytes) continue;
      largest_bytes = group.page_bytes;
      result = one;
    }
    return result;
  }

  void Wake() {
    const uint64_t one = 1;
    BATON_CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
  }

  // Waits for the end of any connection. Only this thread takes arenas out of the map, so the
  // descriptors it polls stay open.
  void Run() {
    while (!stopping_) {
      std::vector<pollfd> fds = {{.fd = wake_.get(), .events = POLLIN}};
      std::vector<std::string> incarnations;
      {
        std::lock_guard lock(mutex_);
        for (const auto& [incarnation, arena] : arenas_) {
          // POLLRDHUP: the owner is dead, or stops and asks to unmap.
          fds.push_back({.fd = arena->connection(), .events = POLLRDHUP});
          incarnations.push_back(incarnation);
        }
      }
      if (poll(fds.data(), fds.size(), -1) <= 0) continue;
      if (fds[0].revents != 0) {
        uint64_t count = 0;
        BATON_CHECK(read(wake_.get(), &count, sizeof(count)) == sizeof(count));
      }
      for (size_t i = 0; i < incarnations.size(); ++i)
        if (fds[i + 1].revents != 0) Forget(incarnations[i]);
    }
  }

  void Forget(const std::string& incarnation) {
    std::shared_ptr<MappedArena> arena;
    {
      std::lock_guard lock(mutex_);
      const auto at = arenas_.find(incarnation);
      arena = std::move(at->second);
      arenas_.erase(at);
    }
    arena->MarkOwnerGone();
    if (options_.on_owner_gone) options_.on_owner_gone(incarnation);
  }

  KvImporterOptions options_;
  UniqueFd wake_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<MappedArena>, std::less<>> arenas_;  // Under mutex_.
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvImporter>> KvImporter::Start(KvImporterOptions options) {
  BATON_CHECK(options.transport != nullptr);
  if (options.incarnation.empty())
    return absl::InvalidArgumentError("importer incarnation: wanted a name, found an empty one");
  return std::make_unique<SocketImporter>(std::move(options));
}

}  // namespace baton
