// What every serving process does around its own work: flags, signals, the line that says it
// listens, and the drain. Used by the main functions on the main thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "services/base/drain_gate.h"
#include "services/base/grpc_server.h"

ABSL_DECLARE_FLAG(std::string, listen);
ABSL_DECLARE_FLAG(std::string, metrics_listen);
ABSL_DECLARE_FLAG(std::string, log_level);
ABSL_DECLARE_FLAG(int, drain_seconds);

namespace baton {

// SIGTERM and SIGINT, received by waiting. Construct it before any thread starts: they inherit the
// blocked signals. Also ignores SIGPIPE.
class ShutdownSignal {
 public:
  ShutdownSignal();
  // Returns its number. From then on a second one ends the process at once.
  int Wait();
};

// Parses absl flags; dashes in flag names are taken as underscores. Exits with a message on an
// unknown flag or a stray argument. Starts logging.
void ParseServiceFlags(int argc, char** argv, const std::string& role);

// What --model, of whom this is the value, --drain_seconds and --log_level may be; InvalidArgument
// names the flag.
absl::Status CheckCommonFlags(const std::string& model);

// Prints `listening address=HOST:PORT metrics_port=N` on standard output, for scripts that wait.
void AnnounceListening(const GrpcServer& server, int metrics_port);

struct DrainSteps {
  GrpcServer* server = nullptr;
  DrainGate* gate = nullptr;
  std::function<void()> announce;  // Tells watchers that the process drains.
  std::function<void()> close;     // Ends streams that would keep the server from stopping.
};
// Health NOT_SERVING, refuse new requests, wait for those in flight up to --drain_seconds, stop.
void DrainAndStop(const DrainSteps& steps);

}  // namespace baton
