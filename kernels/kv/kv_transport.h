// KvTransport: one way to share a KV arena between two processes of a machine. Allocates memory on
// the owner's side, opens it on the importer's side, and tests it. KvExporter and KvImporter do the
// talking. Stateless apart from its device; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/kv/kv_arena_descriptor.h"

namespace baton {

// Bytes per second of the importer's writes to and reads from the owner's memory.
struct KvSelfTestResult {
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
};

// What an owner gives away so that another process can open the memory. Exactly one is set.
struct KvExportHandle {
  int fd = -1;             // Borrowed from the memory; sent over the socket.
  std::string ipc_handle;  // Part of the descriptor.
};

class KvTransport {
 public:
  virtual ~KvTransport() = default;
  virtual std::string_view kind() const = 0;  // "posix_shm", "cuda_ipc".
  // Of its GPU, as the arena's descriptor must say it; empty for host memory.
  virtual std::string device_uuid() const = 0;

  // FailedPrecondition, with the reason, where this machine or process cannot use it.
  virtual absl::Status CheckAvailable() const = 0;

  // Zeroed memory that other processes can open. ResourceExhausted when there is too little.
  virtual absl::StatusOr<std::unique_ptr<KvMemory>> Allocate(uint64_t size_bytes) const = 0;

  // `memory` is from Allocate of the same kind.
  virtual absl::StatusOr<KvExportHandle> Export(const KvMemory& memory) const = 0;

  // Opens the owner's memory; destroying the result unmaps it. `fd` came with the handshake (-1:
  // none) and stays the caller's. FailedPrecondition when size, seals, process or device do not
  // fit, with wanted and found.
  virtual absl::StatusOr<std::unique_ptr<KvMemory>> Import(const KvArenaDescriptor& descriptor,
                                                           int fd) const = 0;

  // Writes a pattern derived from `seed` to [offset, offset + size) of the memory and reads it
  // back, timed. DataLoss when a byte differs.
  struct SelfTestRange {
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;  // A multiple of 8.
    uint64_t seed = 0;
  };
  virtual absl::StatusOr<KvSelfTestResult> SelfTest(KvMemory& memory,
                                                    const SelfTestRange& range) const = 0;

  // Copies between host memory and memory of this kind, whole and at once; for checks of contents.
  virtual absl::Status CopyIn(void* to, absl::Span<const char> bytes) const = 0;
  virtual absl::Status CopyOut(const void* from, absl::Span<char> bytes) const = 0;
};

}  // namespace baton
