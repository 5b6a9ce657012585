#include "kernels/models/safetensors_file.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/models/quoted.h"

namespace baton {
namespace {

std::optional<DType> WeightDType(std::string_view name) {
  for (DType dtype : {DType::kBf16, DType::kF16, DType::kF32}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.byte_count());
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, file.byte_count());
  if (!header.ok()) {
    return absl::Status(header.status().code(),
                        absl::StrCat(path, ": ", header.status().message()));
  }
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(path, std::move(file), *std::move(header)));
}

SafetensorsFile::SafetensorsFile(std::string path, MappedFile file, SafetensorsHeader header)
    : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {
  entry_by_name_.reserve(header_.entries.size());
  for (size_t i = 0; i < header_.entries.size(); ++i) {
    entry_by_name_.emplace(header_.entries[i].name, i);
  }
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto found = entry_by_name_.find(absl::string_view(name.data(), name.size()));
  return found == entry_by_name_.end() ? nullptr : &header_.entries[found->second];
}

const std::byte* SafetensorsFile::Data(const SafetensorsEntry& entry) const {
  BATON_CHECK(Find(entry.name) == &entry);
  return file_.data() + header_.data_begin + entry.begin;
}

absl::StatusOr<TensorView> SafetensorsFile::Tensor(std::string_view name) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat(path_, ": tensor ", Quoted(name), " is missing"));
  }
  const std::optional<DType> dtype = WeightDType(entry->dtype);
  if (!dtype.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": tensor ", Quoted(name), ": want dtype BF16, F16 or F32, found ", entry->dtype));
  }
  return TensorView{Data(*entry), *dtype, entry->shape, entry->name};
}

}  // namespace baton
