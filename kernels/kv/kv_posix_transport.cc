#include "kernels/kv/kv_posix_transport.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/kv/host_memory.h"
#include "kernels/kv/kv_transport_factory.h"
#include "kernels/kv/unique_fd.h"

namespace baton {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int kSelfTestRounds = 8;

// A mapped memfd. The owner keeps the descriptor to hand it out; an importer's mapping needs none.
class PosixMemory : public KvMemory {
 public:
  static absl::StatusOr<std::unique_ptr<KvMemory>> Map(int fd, uint64_t size_bytes, UniqueFd kept) {
    void* base = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
      return absl::ResourceExhaustedError(
          absl::StrCat("mapping ", size_bytes, " bytes of KV memory: ", std::strerror(errno)));
    return std::unique_ptr<KvMemory>(new PosixMemory(base, size_bytes, std::move(kept)));
  }
  ~PosixMemory() override { munmap(base_, size_bytes_); }
  void* base() const override { return base_; }
  uint64_t size_bytes() const override { return size_bytes_; }
  int fd() const { return fd_.get(); }

 private:
  PosixMemory(void* base, uint64_t size_bytes, UniqueFd fd)
      : base_(base), size_bytes_(size_bytes), fd_(std::move(fd)) {}

  void* base_;
  uint64_t size_bytes_;
  UniqueFd fd_;
};

double BytesPerSecond(uint64_t size_bytes, std::chrono::steady_clock::duration time) {
  const double seconds = std::max(std::chrono::duration<double>(time).count(), 1e-9);
  return static_cast<double>(size_bytes) / seconds;
}

}  // namespace

std::string_view KvPosixTransport::kind() const { return kPosixShmTransport; }

absl::StatusOr<std::unique_ptr<KvMemory>> KvPosixTransport::Allocate(uint64_t size_bytes) const {
  if (size_bytes == 0)
    return absl::InvalidArgumentError("KV memory: wanted more than 0 bytes, found 0");
  if (const uint64_t available = AvailableHostBytes(); size_bytes > available)
    return absl::ResourceExhaustedError(
        absl::StrCat("KV memory: wanted ", size_bytes, " bytes, found ", available, " available"));
  UniqueFd fd(memfd_create("baton-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), size_bytes) || fcntl(fd.get(), F_ADD_SEALS, kSeals))
    return absl::ResourceExhaustedError(
        absl::StrCat("creating ", size_bytes, " bytes of KV memory: ", std::strerror(errno)));
  const int raw_fd = fd.get();
  return PosixMemory::Map(raw_fd, size_bytes, std::move(fd));
}

absl::StatusOr<KvExportHandle> KvPosixTransport::Export(const KvMemory& memory) const {
  const auto* posix = dynamic_cast<const PosixMemory*>(&memory);
  BATON_CHECK(posix != nullptr && posix->fd() >= 0);
  return KvExportHandle{.fd = posix->fd()};
}

absl::StatusOr<std::unique_ptr<KvMemory>> KvPosixTransport::Import(
    const KvArenaDescriptor& descriptor, int fd) const {
  if (fd < 0)
    return absl::FailedPreconditionError("posix_shm memory: wanted a descriptor, found none");
  struct stat status = {};
  if (fstat(fd, &status) != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("posix_shm memory: fstat: ", std::strerror(errno)));
  if (static_cast<uint64_t>(status.st_size) != descriptor.size_bytes)
    return absl::FailedPreconditionError(absl::StrCat(
        "posix_shm memory: wanted ", descriptor.size_bytes, " bytes, found ", status.st_size));
  // Unsealed memory could shrink under a writer, which would then die of SIGBUS.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return absl::FailedPreconditionError(
        absl::StrCat("posix_shm memory: wanted seals ", kSeals, ", found ", seals));
  return PosixMemory::Map(fd, descriptor.size_bytes, UniqueFd());
}

absl::StatusOr<KvSelfTestResult> KvPosixTransport::SelfTest(KvMemory& memory,
                                                            const SelfTestRange& range) const {
  BATON_CHECK(range.size_bytes > 0 && range.size_bytes % sizeof(uint64_t) == 0);
  BATON_CHECK(range.offset_bytes + range.size_bytes <= memory.size_bytes());
  using Clock = std::chrono::steady_clock;
  const size_t word_count = range.size_bytes / sizeof(uint64_t);
  std::vector<uint64_t> pattern(word_count), read(word_count);
  char* const page = static_cast<char*>(memory.base()) + range.offset_bytes;
  Clock::duration write_time{0}, read_time{0};
  for (int round = 0; round < kSelfTestRounds; ++round) {
    for (size_t i = 0; i < word_count; ++i)
      pattern[i] = (range.seed + round + i) * 0x9e3779b97f4a7c15u;
    const auto start = Clock::now();
    std::memcpy(page, pattern.data(), range.size_bytes);
    const auto written = Clock::now();
    std::memcpy(read.data(), page, range.size_bytes);
    const auto done = Clock::now();
    if (read != pattern)
      return absl::DataLossError(absl::StrCat("KV self-test: ", range.size_bytes, " bytes at ",
                                              range.offset_bytes, " read back other than written"));
    if (round == 0) continue;  // Its page faults are not the transport's speed.
    write_time += written - start;
    read_time += done - written;
  }
  const uint64_t moved = range.size_bytes * (kSelfTestRounds - 1);
  return KvSelfTestResult{.write_bytes_per_second = BytesPerSecond(moved, write_time),
                          .read_bytes_per_second = BytesPerSecond(moved, read_time)};
}

absl::Status KvPosixTransport::CopyIn(void* to, absl::Span<const char> bytes) const {
  std::memcpy(to, bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status KvPosixTransport::CopyOut(const void* from, absl::Span<char> bytes) const {
  std::memcpy(bytes.data(), from, bytes.size());
  return absl::OkStatus();
}

}  // namespace baton
