// KvArenaDescriptor: an arena as its owner describes it to an importer, once per attach. The domain
// twin of baton.v1.KvArenaDescriptor; a plain value. An importer describes what it would have built
// itself and refuses to attach unless both agree field by field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/kv/kv_layout.h"

namespace baton {

// Page of each group that carries the self-test's pattern and is never given to a sequence.
inline constexpr PageId kScratchPage = 0;

struct KvArenaDescriptor {
  std::string incarnation;  // Of the owner, 32 hex digits, random per process start.
  std::string transport;    // "posix_shm" or "cuda_ipc".
  std::string socket;       // Abstract Unix socket, without the leading NUL.
  std::string ipc_handle;   // cudaIpcMemHandle_t (64 bytes) for cuda_ipc, else empty.
  uint64_t size_bytes = 0;
  std::string device_uuid;  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or host identity.
  uint32_t owner_pid = 0;
  uint64_t model_fingerprint = 0;  // Of config, weights and dtype.
  uint32_t page_tokens = kPageTokens;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t element_bytes = 0;
  bool swizzled = false;
  uint32_t window_keys = 0;
  std::vector<uint8_t> layer_group;   // [layer] -> index into groups
  std::vector<KvGroupLayout> groups;  // kKvGroupCount of them
  std::vector<PageId> scratch_pages;  // [group]
};

// Whose arena: what a descriptor says beside the layout.
struct KvArenaIdentity {
  std::string transport;
  std::string device_uuid;
  uint64_t model_fingerprint = 0;
};

// The descriptor of an arena of this layout. incarnation, socket, ipc_handle and owner_pid are left
// empty: KvExporter fills them in; they take no part in comparisons.
KvArenaDescriptor DescribeArena(const KvLayout& layout, const KvArenaIdentity& identity);

// The layout that a descriptor describes. Only for descriptors that CheckCompatible accepted.
KvLayout LayoutOf(const KvArenaDescriptor& descriptor);

// One line per field that differs: "kv_heads: wanted 4, found 8". Empty when they agree. Device
// UUIDs are compared for posix_shm only: with cuda_ipc two devices may have peer access, which the
// transport checks.
std::vector<std::string> CompareDescriptors(const KvArenaDescriptor& wanted,
                                            const KvArenaDescriptor& found);

// FailedPrecondition listing every difference, or that `found` lacks an incarnation or a socket.
absl::Status CheckCompatible(const KvArenaDescriptor& wanted, const KvArenaDescriptor& found);

}  // namespace baton
