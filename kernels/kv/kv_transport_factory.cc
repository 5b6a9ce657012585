#include "kernels/kv/kv_transport_factory.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/kv/kv_posix_transport.h"
#ifdef BATON_WITH_CUDA
#include "kernels/kv/kv_cuda_transport.h"
#endif

namespace baton {

std::vector<std::string> KvTransportKinds() {
  std::vector<std::string> kinds = {std::string(kPosixShmTransport)};
#ifdef BATON_WITH_CUDA
  kinds.emplace_back(kCudaIpcTransport);
#endif
  return kinds;
}

absl::StatusOr<std::string> KvTransportForBackend(std::string_view backend_name) {
  if (backend_name == "cpu") return std::string(kPosixShmTransport);
  if (backend_name == "cuda") return std::string(kCudaIpcTransport);
  return absl::InvalidArgumentError(
      absl::StrCat("backend: wanted cpu or cuda, found ", std::string(backend_name)));
}

absl::StatusOr<std::unique_ptr<KvTransport>> MakeKvTransport(const KvTransportOptions& options) {
  if (options.kind == kPosixShmTransport) return std::make_unique<KvPosixTransport>();
  if (options.kind == kCudaIpcTransport) {
#ifdef BATON_WITH_CUDA
    return MakeKvCudaTransport(options.cuda_device);
#else
    return absl::FailedPreconditionError(
        "KV transport cuda_ipc: wanted a build with CUDA, found one without");
#endif
  }
  return absl::InvalidArgumentError(absl::StrCat("KV transport: wanted one of ",
                                                 absl::StrJoin(KvTransportKinds(), ", "),
                                                 ", found ", options.kind));
}

}  // namespace baton
