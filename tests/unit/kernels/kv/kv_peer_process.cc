// One side of a hand-over as a process of its own, for the transport tests: reads one command a
// line and answers each with one line.
//
//   kv_peer_process owner KIND INCARNATION    -> "ready SOCKET PID HANDLE UUID" | "unavailable WHY"
//   kv_peer_process importer KIND INCARNATION -> "ready" | "unavailable WHY"
//
// Both: "write OFFSET SIZE SEED" -> "ok"; "sum OFFSET SIZE" -> digest; "event" -> the next event or
// "none"; "resources" -> "DESCRIPTORS MAPPINGS". Owner: "peers" -> count. Importer:
// "attach INCARNATION SOCKET PID HANDLE UUID FINGERPRINT FULL_PAGES" -> "ok WRITE READ" | error;
// "detach" -> "ok".
#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/kv/kv_exporter.h"
#include "kernels/kv/kv_importer.h"
#include "kernels/kv/kv_transport_factory.h"
#include "tests/unit/kernels/kv/event_queue.h"
#include "tests/unit/kernels/kv/kv_test_layout.h"

namespace baton {
namespace {

constexpr uint64_t kFingerprint = 7;
constexpr uint32_t kPageCount = 8;

std::string ErrorLine(const absl::Status& status) { return "error " + status.ToString(); }

int CountDescriptors() {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

int CountMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("baton-kv") != std::string::npos;
  return count;
}

class Peer {
 public:
  explicit Peer(std::unique_ptr<KvTransport> transport) : transport_(std::move(transport)) {}
  virtual ~Peer() = default;

  virtual std::string Handle(const std::string& command, std::istringstream& words) {
    uint64_t offset = 0, size = 0, seed = 0;
    if (command == "event") return events_.Pop(std::chrono::seconds(5));
    if (command == "resources") return absl::StrCat(CountDescriptors(), " ", CountMappings());
    if (command == "write" && words >> offset >> size >> seed) {
      std::vector<char> bytes(size);
      for (uint64_t i = 0; i < size; ++i)
        bytes[i] = static_cast<char>((i * 2654435761u + seed) >> 7);
      const absl::Status status = transport_->CopyIn(Base() + offset, bytes);
      return status.ok() ? "ok" : ErrorLine(status);
    }
    if (command == "sum" && words >> offset >> size) {
      std::vector<char> bytes(size);
      const absl::Status status = transport_->CopyOut(Base() + offset, absl::MakeSpan(bytes));
      if (!status.ok()) return ErrorLine(status);
      uint64_t sum = 0;
      for (char byte : bytes) sum = sum * 1099511628211u + static_cast<unsigned char>(byte);
      return std::to_string(sum);
    }
    return "error unknown command " + command;
  }

 protected:
  virtual char* Base() const = 0;

  KvArenaDescriptor Describe(uint64_t fingerprint, uint32_t full_pages,
                             const std::string& uuid) const {
    return DescribeArena(TestLayout(full_pages, kPageCount),
                         {.transport = std::string(transport_->kind()),
                          .device_uuid = uuid,
                          .model_fingerprint = fingerprint});
  }

  EventQueue events_;
  std::unique_ptr<KvTransport> transport_;
};

class OwnerPeer : public Peer {
 public:
  OwnerPeer(std::unique_ptr<KvTransport> transport, const std::string& incarnation)
      : Peer(std::move(transport)) {
    const std::string uuid = transport_->device_uuid();
    const KvArenaDescriptor descriptor =
        Describe(kFingerprint, kPageCount, uuid.empty() ? "host" : uuid);
    memory_ = *transport_->Allocate(descriptor.size_bytes);
    exporter_ =
        *KvExporter::Start({.descriptor = descriptor,
                            .incarnation = incarnation,
                            .transport = transport_.get(),
                            .memory = memory_.get(),
                            .on_peer = [this](const KvPeerEvent& event) {
                              const bool attached = event.kind == KvPeerEvent::Kind::kAttached;
                              events_.Push((attached ? "attached " : "gone ") + event.incarnation);
                            }});
    const KvArenaDescriptor& full = exporter_->descriptor();
    const std::string handle = absl::BytesToHexString(full.ipc_handle);
    std::cout << "ready " << full.socket << " " << full.owner_pid << " "
              << (handle.empty() ? "-" : handle) << " " << full.device_uuid << std::endl;
  }
  std::string Handle(const std::string& command, std::istringstream& words) override {
    if (command == "peers") return std::to_string(exporter_->peer_count());
    return Peer::Handle(command, words);
  }

 private:
  char* Base() const override { return static_cast<char*>(memory_->base()); }

  std::unique_ptr<KvMemory> memory_;
  std::unique_ptr<KvExporter> exporter_;
};

class ImporterPeer : public Peer {
 public:
  ImporterPeer(std::unique_ptr<KvTransport> transport, std::string incarnation)
      : Peer(std::move(transport)), incarnation_(std::move(incarnation)) {
    StartImporter();
    std::cout << "ready" << std::endl;
  }
  std::string Handle(const std::string& command, std::istringstream& words) override {
    if (command == "attach") return Attach(words);
    if (command != "detach") return Peer::Handle(command, words);
    arena_.reset();
    StartImporter();
    return "ok";
  }

 private:
  char* Base() const override { return static_cast<char*>(arena_->base()); }

  void StartImporter() {
    importer_ = *KvImporter::Start({.incarnation = incarnation_,
                                    .transport = transport_.get(),
                                    .on_owner_gone = [this](std::string_view owner) {
                                      events_.Push("gone " + std::string(owner));
                                    }});
  }

  std::string Attach(std::istringstream& words) {
    KvArenaDescriptor found;
    std::string incarnation, socket, handle, uuid;
    uint32_t pid = 0, full_pages = 0;
    uint64_t fingerprint = 0;
    if (!(words >> incarnation >> socket >> pid >> handle >> uuid >> fingerprint >> full_pages))
      return "error incomplete attach";
    found = Describe(kFingerprint, kPageCount, uuid);
    found.incarnation = incarnation;
    found.socket = socket;
    found.owner_pid = pid;
    if (handle != "-") found.ipc_handle = absl::HexStringToBytes(handle);
    auto arena = importer_->Attach(found, Describe(fingerprint, full_pages, uuid));
    if (!arena.ok()) return ErrorLine(arena.status());
    arena_ = *arena;
    return absl::StrCat("ok ", arena_->self_test().write_bytes_per_second, " ",
                        arena_->self_test().read_bytes_per_second);
  }

  std::string incarnation_;
  std::shared_ptr<const KvImportedArena> arena_;
  std::unique_ptr<KvImporter> importer_;
};

int Main(const std::string& role, const std::string& kind, const std::string& incarnation) {
  auto transport = MakeKvTransport({.kind = kind});
  if (!transport.ok()) {
    std::cout << "unavailable " << transport.status().message() << std::endl;
    return 0;
  }
  std::unique_ptr<Peer> peer;
  if (role == "owner")
    peer = std::make_unique<OwnerPeer>(std::move(*transport), incarnation);
  else
    peer = std::make_unique<ImporterPeer>(std::move(*transport), incarnation);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    std::cout << peer->Handle(command, words) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return baton::Main(argv[1], argv[2], argv[3]);
}
