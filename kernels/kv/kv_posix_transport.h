// posix_shm: KV memory in a memfd, which has no name, is sealed against resizing and vanishes with
// the last process that holds it, however that ends. The descriptor travels over the KV socket.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kv/kv_transport.h"

namespace baton {

class KvPosixTransport : public KvTransport {
 public:
  std::string_view kind() const override;
  std::string device_uuid() const override { return ""; }
  absl::Status CheckAvailable() const override { return absl::OkStatus(); }
  // Pages of memory are taken from the machine when first touched.
  absl::StatusOr<std::unique_ptr<KvMemory>> Allocate(uint64_t size_bytes) const override;
  absl::StatusOr<KvExportHandle> Export(const KvMemory& memory) const override;
  absl::StatusOr<std::unique_ptr<KvMemory>> Import(const KvArenaDescriptor& descriptor,
                                                   int fd) const override;
  absl::StatusOr<KvSelfTestResult> SelfTest(KvMemory& memory,
                                            const SelfTestRange& range) const override;
  absl::Status CopyIn(void* to, absl::Span<const char> bytes) const override;
  absl::Status CopyOut(const void* from, absl::Span<char> bytes) const override;
};

}  // namespace baton
