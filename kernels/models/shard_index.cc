#include "kernels/models/shard_index.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/models/json_object.h"
#include "kernels/models/quoted.h"

namespace baton {
namespace {

constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
constexpr size_t kMaxFiles = 4096;

bool IsPlainFileName(const std::string& name) {
  return absl::EndsWith(name, ".safetensors") && name.find('/') == std::string::npos &&
         name.size() <= 255;
}

}  // namespace

absl::StatusOr<ShardIndex> ParseShardIndex(std::string_view text, std::string name) {
  BATON_ASSIGN_OR_RETURN(JsonObject index,
                         JsonObject::Parse(text, std::move(name), kMaxIndexBytes));
  const JsonObject weight_map = index.Object("weight_map");
  if (weight_map.json().empty()) index.Refuse("weight_map", "an object of tensors and their files");
  BATON_RETURN_IF_ERROR(index.status());

  std::map<std::string, int> id_of_file;
  for (const auto& [tensor, file] : weight_map.json().items()) {
    if (!file.is_string() || !IsPlainFileName(file.get_ref<const std::string&>())) {
      const std::string found = file.is_string() ? Quoted(file.get_ref<const std::string&>())
                                                 : std::string(file.type_name());
      return absl::InvalidArgumentError(
          absl::StrCat(index.name(), ": tensor ", Quoted(tensor),
                       ": want the name of a .safetensors file in this directory, found ", found));
    }
    id_of_file.emplace(file.get<std::string>(), 0);
  }
  if (id_of_file.size() > kMaxFiles) {
    return absl::InvalidArgumentError(absl::StrCat(index.name(), ": want at most ", kMaxFiles,
                                                   " files, found ", id_of_file.size()));
  }

  ShardIndex result;
  for (auto& [file, id] : id_of_file) {
    id = static_cast<int>(result.files.size());
    result.files.push_back(file);
  }
  for (const auto& [tensor, file] : weight_map.json().items()) {
    result.file_of.emplace(tensor, id_of_file.at(file.get<std::string>()));
  }
  return result;
}

}  // namespace baton
