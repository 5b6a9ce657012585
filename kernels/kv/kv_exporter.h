// KvExporter: the owner's end of a shared arena. Listens on an abstract Unix socket with a random
// name, hands the memory's descriptor to peers of the same user, and holds every connection open:
// its end is the notice that the peer has unmapped the arena or died.
//
// Owner: the decode process, which destroys it before the memory. Runs one thread of its own, which
// sleeps in poll and calls on_peer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/kv/kv_arena_descriptor.h"
#include "kernels/kv/kv_transport.h"

namespace baton {

struct KvPeerEvent {
  enum class Kind { kAttached, kGone };
  Kind kind = Kind::kAttached;
  std::string incarnation;  // Of the peer.
  uint32_t pid = 0;         // As the kernel reports it; for logs.
};

struct KvExporterOptions {
  KvArenaDescriptor descriptor;            // From DescribeArena.
  std::string incarnation;                 // Of the owner; KvArenaOptions::incarnation.
  const KvTransport* transport = nullptr;  // Outlives the exporter.
  const KvMemory* memory = nullptr;        // Outlives the exporter.
  // Called on the exporter's thread; must not block. kAttached comes before the peer's Attach
  // returns; kGone once, after the last connection of that incarnation has ended. Forward to the
  // arena's thread: KvArena::AttachWriter, KvArena::WriterGone.
  std::function<void(const KvPeerEvent&)> on_peer;
};

class KvExporter {
 public:
  // Connected peers at once; more are refused with ResourceExhausted.
  static constexpr int kMaxPeers = 64;

  // InvalidArgument: the memory's size or the device is not what the descriptor says. Errors of the
  // transport's Export; Internal for those of the socket.
  static absl::StatusOr<std::unique_ptr<KvExporter>> Start(KvExporterOptions options);
  virtual ~KvExporter() = default;  // Tells peers to unmap and waits for them, at most a second.

  // Complete: what an AttachArena request carries.
  virtual const KvArenaDescriptor& descriptor() const = 0;
  virtual int peer_count() const = 0;  // Connections that completed the handshake.
};

}  // namespace baton
