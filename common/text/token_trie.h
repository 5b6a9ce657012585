// Finds the leftmost, longest of a set of byte strings. Immutable once built.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace baton {

class TokenTrie {
 public:
  struct Hit {
    size_t begin = 0;
    size_t end = 0;
    size_t value = 0;
  };

  TokenTrie();
  // `key` is not empty. An equal earlier key keeps its value.
  void Insert(std::string_view key, size_t value);
  bool empty() const { return nodes_.size() == 1; }
  // The first hit at or after `from`. Time: text length times the longest key at most.
  std::optional<Hit> Find(std::string_view text, size_t from) const;

 private:
  struct Node {
    absl::flat_hash_map<uint8_t, uint32_t> children;  // Byte to index in nodes_.
    std::optional<size_t> value;
  };

  std::vector<Node> nodes_;             // [0]: the root.
  std::array<bool, 256> starts_key_{};  // Can a key start with this byte?
};

}  // namespace baton
