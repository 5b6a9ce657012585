// ShardIndex: a model.safetensors.index.json, which says in which file of a sharded checkpoint each
// tensor is. A plain value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace baton {

struct ShardIndex {
  std::vector<std::string> files;                 // Names without a directory; sorted, each once.
  absl::flat_hash_map<std::string, int> file_of;  // Tensor name -> index into `files`.
};

// Parses the text of an index; `name` begins each message. InvalidArgument for anything but a
// weight_map of file names in the same directory.
absl::StatusOr<ShardIndex> ParseShardIndex(std::string_view text, std::string name);

}  // namespace baton
