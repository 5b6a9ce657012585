// SafetensorsFile: one mapped safetensors file with a validated header. Owns the mapping; tensors
// are views into it, never copies. Immutable, so any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/models/dtype.h"
#include "kernels/models/mapped_file.h"
#include "kernels/models/safetensors_header.h"
#include "kernels/models/tensor_view.h"

namespace baton {

class SafetensorsFile {
 public:
  // Maps and checks `path`. Errors begin with the path.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }

  // The entry of that name, or null.
  const SafetensorsEntry* Find(std::string_view name) const;

  // The bytes of one of this file's entries: end - begin of them, of whatever dtype, aligned to its
  // size.
  const std::byte* Data(const SafetensorsEntry& entry) const;

  // A BF16, F16 or F32 tensor as a view. NotFound without one of that name; InvalidArgument for
  // another dtype.
  absl::StatusOr<TensorView> Tensor(std::string_view name) const;

  // For hints about the reads to come.
  const MappedFile& mapping() const { return file_; }

 private:
  SafetensorsFile(std::string path, MappedFile file, SafetensorsHeader header);

  std::string path_;
  MappedFile file_;
  SafetensorsHeader header_;
  absl::flat_hash_map<absl::string_view, size_t> entry_by_name_;  // Keys point into header_.
};

}  // namespace baton
