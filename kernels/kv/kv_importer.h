// KvImporter: the writer's end of shared arenas, one per owner it serves. Opens arenas by their
// descriptors, tests them, and forgets an arena as soon as its owner is gone: an imported mapping
// pins the owner's memory.
//
// Owner: the prefill process. Attach and Find from any thread. Runs one thread of its own, which
// sleeps in poll and calls on_owner_gone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/kv/kv_arena_descriptor.h"
#include "kernels/kv/kv_layout.h"
#include "kernels/kv/kv_transport.h"

namespace baton {

// An arena of another process, mapped as long as this object lives. A job that writes into it holds
// a shared_ptr; when the last one goes, the memory is unmapped and then the connection closed,
// which tells the owner that nothing of this process can write any more.
class KvImportedArena {
 public:
  virtual ~KvImportedArena() = default;
  virtual const KvArenaDescriptor& descriptor() const = 0;
  virtual const KvLayout& layout() const = 0;
  virtual void* base() const = 0;
  virtual const KvSelfTestResult& self_test() const = 0;
  // The owner's end of the connection is closed: whatever is written now, nobody will read.
  virtual bool owner_gone() const = 0;
  // The memory is another GPU's: kernels must not read it, and copies cross the link between them.
  virtual bool on_peer_device() const { return false; }
};

struct KvImporterOptions {
  std::string incarnation;                 // Of this process.
  const KvTransport* transport = nullptr;  // Outlives the importer and its arenas.
  // Called on the importer's thread with the arena's incarnation; must not block.
  std::function<void(std::string_view)> on_owner_gone;
};

class KvImporter {
 public:
  static constexpr int kMaxArenas = 64;

  static absl::StatusOr<std::unique_ptr<KvImporter>> Start(KvImporterOptions options);
  virtual ~KvImporter() = default;

  // Maps and tests the arena that `found` describes; `wanted` is what this process would have built
  // (DescribeArena of its own backend's layout with the page counts of `found`). Idempotent per
  // incarnation. FailedPrecondition: the descriptors differ (every field is named), the owner
  // refused, or the memory cannot be shared. Unavailable: the owner is gone. DataLoss: the
  // self-test read other bytes than it wrote. ResourceExhausted: kMaxArenas are attached.
  virtual absl::StatusOr<std::shared_ptr<const KvImportedArena>> Attach(
      const KvArenaDescriptor& found, const KvArenaDescriptor& wanted) = 0;

  // The attached arena, or nullptr: never attached, or its owner is gone.
  virtual std::shared_ptr<const KvImportedArena> Find(std::string_view incarnation) const = 0;

  virtual int arena_count() const = 0;
};

}  // namespace baton
