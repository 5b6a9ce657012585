// Makes the KV transport that a flag names. The .cc is the one file of this folder that knows
// whether CUDA was built in.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/kv/kv_transport.h"

namespace baton {

inline constexpr std::string_view kPosixShmTransport = "posix_shm";
inline constexpr std::string_view kCudaIpcTransport = "cuda_ipc";

struct KvTransportOptions {
  std::string kind = std::string(kPosixShmTransport);
  int cuda_device = 0;  // Ordinal in this process; cuda_ipc only.
};

// Every kind this program was built with, in a fixed order.
std::vector<std::string> KvTransportKinds();

// The kind that serves memory of a backend: Backend::name() "cpu" -> posix_shm, "cuda" -> cuda_ipc.
// InvalidArgument for another name.
absl::StatusOr<std::string> KvTransportForBackend(std::string_view backend_name);

// InvalidArgument for an unknown kind, FailedPrecondition for one that was not built in.
absl::StatusOr<std::unique_ptr<KvTransport>> MakeKvTransport(const KvTransportOptions& options);

}  // namespace baton
