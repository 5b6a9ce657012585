// Exit statuses of `baton`, part of its interface: scripts tell failures apart by them.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace baton {

enum ExitCode : int {
  kExitOk = 0,
  kExitMismatch = 1,     // `check` found a difference.
  kExitUsage = 2,        // Unknown flag, bad value, file that cannot be read.
  kExitInvalid = 3,      // The server refused the request: INVALID_ARGUMENT, NOT_FOUND, …
  kExitUnavailable = 4,  // No router, no workers, queue full, deadline passed: try again later.
  kExitFailed = 5,       // INTERNAL and what is not expected.
  kExitCancelled = 130,  // Ctrl-C.
};

ExitCode ExitCodeFor(const absl::Status& status);
// The codes with their meanings, for the help.
std::string ExitCodeHelp();

}  // namespace baton
