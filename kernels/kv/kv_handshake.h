// The packets with which an importer and an arena's owner meet on the KV socket: hello from the
// importer, the owner's answer (with the memory's descriptor), and "tested" when the importer has
// finished with the scratch pages, which one importer at a time may write. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

inline constexpr std::string_view kKvTestedPacket = "tested";

struct KvHello {
  std::string arena_incarnation;     // The owner that the importer means to reach.
  std::string importer_incarnation;  // The importer's own.
};

// Incarnations are 1 to 64 letters and digits; anything else is InvalidArgument when parsed.
std::string EncodeHello(const KvHello& hello);
absl::StatusOr<KvHello> ParseHello(std::string_view packet);

// The owner's answer: OK, or why it refused.
std::string EncodeAnswer(const absl::Status& status);
// The status that EncodeAnswer was given; Internal for a packet that is none.
absl::Status ParseAnswer(std::string_view packet);

}  // namespace baton
