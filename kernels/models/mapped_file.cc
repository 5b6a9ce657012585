#include "kernels/models/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// Closes a descriptor when it goes out of scope.
class ScopedDescriptor {
 public:
  explicit ScopedDescriptor(int descriptor) : descriptor_(descriptor) {}
  ScopedDescriptor(const ScopedDescriptor&) = delete;
  ScopedDescriptor& operator=(const ScopedDescriptor&) = delete;
  ~ScopedDescriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Non-blocking, so that a pipe in the file's place is refused instead of waited for.
  const ScopedDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  }
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot stat"));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": want a regular file"));
  }
  if (status.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  }
  const size_t byte_count = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, byte_count, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot map ", byte_count, " bytes"));
  }
  MappedFile file;
  file.data_ = static_cast<const std::byte*>(data);
  file.byte_count_ = byte_count;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      byte_count_(std::exchange(other.byte_count_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(byte_count_, other.byte_count_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), byte_count_);
}

void MappedFile::ExpectScatteredReads() const {
  madvise(const_cast<std::byte*>(data_), byte_count_, MADV_RANDOM);
}

void MappedFile::ExpectSequentialReads() const {
  madvise(const_cast<std::byte*>(data_), byte_count_, MADV_NORMAL);
}

void MappedFile::ReadAhead() const {
  madvise(const_cast<std::byte*>(data_), byte_count_, MADV_WILLNEED);
}

}  // namespace baton
