#include "common/text/token_trie.h"

#include "common/check.h"

namespace baton {

TokenTrie::TokenTrie() : nodes_(1) {}

void TokenTrie::Insert(std::string_view key, size_t value) {
  BATON_CHECK(!key.empty());
  starts_key_[static_cast<uint8_t>(key[0])] = true;
  uint32_t node = 0;
  for (const char byte : key) {
    const auto [child, is_new] = nodes_[node].children.try_emplace(
        static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size()));
    node = child->second;
    if (is_new) nodes_.emplace_back();
  }
  if (!nodes_[node].value) nodes_[node].value = value;
}

std::optional<TokenTrie::Hit> TokenTrie::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_key_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Hit> hit;
    uint32_t node = 0;
    for (size_t end = begin; end < text.size(); ++end) {
      const auto child = nodes_[node].children.find(static_cast<uint8_t>(text[end]));
      if (child == nodes_[node].children.end()) break;
      node = child->second;
      if (nodes_[node].value) hit = Hit{begin, end + 1, *nodes_[node].value};
    }
    if (hit) return hit;
  }
  return std::nullopt;
}

}  // namespace baton
