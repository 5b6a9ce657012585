// The byte-level BPE model of tokenizer.json: bytes of one pre-token to token ids. Immutable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/generation.h"
#include "common/text/json_view.h"

namespace baton {

// Highest token id that a tokenizer.json may name; bounds the table of tokens.
inline constexpr int64_t kMaxTokenId = (4 << 20) - 1;

class BpeModel {
 public:
  // Reads the `model` object. InvalidArgument for what the model does not support.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Parse(const JsonView& model);

  // Appends the tokens of one pre-token (raw bytes, not alphabet spelling). O(n log n) in its
  // length. Merges by lowest rank, leftmost first, as `tokenizers` does. Returns the number of heap
  // operations, which tests watch.
  int64_t Encode(std::string_view bytes, std::vector<TokenId>& ids) const;

  std::optional<TokenId> TokenToId(std::string_view token) const;
  // nullptr when no token has this id.
  const std::string* IdToToken(TokenId id) const;
  // One more than the highest id.
  int32_t vocab_size() const { return static_cast<int32_t>(tokens_.size()); }

 private:
  struct Merge {
    int32_t rank = 0;
    TokenId merged = 0;
  };
  struct Symbol;
  struct Candidate;
  class Merger;

  BpeModel() = default;
  absl::Status ReadVocabulary(const JsonView& vocab);
  absl::Status ReadMerges(const JsonView& merges);
  absl::Status ReadUnknown(const JsonView& model);
  const Merge* FindMerge(TokenId left, TokenId right) const;

  std::vector<std::string> tokens_;                     // By id; empty for an id without a token.
  absl::flat_hash_map<std::string_view, TokenId> ids_;  // Views into tokens_.
  absl::flat_hash_map<uint64_t, Merge> merges_;         // Key: left id << 32 | right id.
  std::array<TokenId, 256> byte_ids_{};                 // -1: the vocabulary lacks the byte.
  std::optional<TokenId> unknown_;  // For bytes without a token; without it they are dropped.
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
};

}  // namespace baton
