// The only conversion between absl::Status and grpc::Status.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace baton {

// Codes are equal by number. A message longer than 4 KiB is cut (it travels in HTTP/2 headers).
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace baton
