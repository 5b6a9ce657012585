// MappedFile: a regular file mapped read-only, unmapped on destruction. Reading is safe from any
// thread as long as nobody truncates the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

class MappedFile {
 public:
  // Maps the whole file privately. NotFound, PermissionDenied or InvalidArgument (not a regular
  // file, empty) name the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  uint64_t byte_count() const { return byte_count_; }

  // Hints to the kernel, without errors: a fault reads its own page only, or also those after it
  // (as after Open); start reading the whole file now.
  void ExpectScatteredReads() const;
  void ExpectSequentialReads() const;
  void ReadAhead() const;

 private:
  MappedFile() = default;

  const std::byte* data_ = nullptr;
  uint64_t byte_count_ = 0;
};

}  // namespace baton
