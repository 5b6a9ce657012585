#include "services/client/exit_code.h"

namespace baton {

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kCancelled:
      return kExitCancelled;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitInvalid;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return kExitUnavailable;
    default:
      return kExitFailed;
  }
}

std::string ExitCodeHelp() {
  return "Exit status:\n"
         "    0  done\n"
         "    1  check: a difference was found\n"
         "    2  usage: unknown flag, bad value, unreadable file\n"
         "    3  the server refused the request (invalid argument, not found, no chat template)\n"
         "    4  unavailable: no router or worker, queue full, deadline passed; try again later\n"
         "    5  the server failed, or standard output could not be written\n"
         "  130  interrupted\n";
}

}  // namespace baton
