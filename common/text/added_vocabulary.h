// The added and special tokens of tokenizer.json: cut out of the text before anything else sees it.
// Immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/generation.h"
#include "common/text/bpe_model.h"
#include "common/text/json_view.h"
#include "common/text/normalizer.h"
#include "common/text/regex.h"
#include "common/text/token_trie.h"

namespace baton {

// The fields of one element of `added_tokens`, with `tokenizers`' meaning.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  std::string spelling;      // What the id stands for: content, in normal form if `normalized`.
  bool single_word = false;  // Not within a word.
  bool lstrip = false;       // Takes the white space before it.
  bool rstrip = false;       // Takes the white space after it.
  bool normalized = false;   // Looked for after normalization.
  bool special = false;      // Left out of decoded text on demand.
};

// A part of the text: an added token, or text to tokenize.
struct AddedSpan {
  size_t begin = 0;
  size_t end = 0;
  std::optional<TokenId> token;
};

class AddedVocabulary {
 public:
  // Reads the `added_tokens` array. A token that the model also has must have the model's id.
  static absl::StatusOr<AddedVocabulary> Parse(const JsonView& added_tokens, const BpeModel& model,
                                               const Normalizer& normalizer);

  // Appends the spans of `text` (valid UTF-8) in order, looking for the tokens with the given
  // `normalized`: leftmost first, the longest of those.
  absl::Status Split(std::string_view text, bool normalized, std::vector<AddedSpan>& spans) const;

  bool HasTokens(bool normalized) const { return !Trie(normalized).empty(); }
  const AddedToken* FindById(TokenId id) const;
  const AddedToken* FindByContent(std::string_view content) const;
  // One more than the highest id; 0 without tokens.
  int32_t id_limit() const { return id_limit_; }

 private:
  AddedVocabulary() = default;
  absl::Status Add(const JsonView& element, const BpeModel& model);
  absl::Status BuildTries(const Normalizer& normalizer);
  const TokenTrie& Trie(bool normalized) const { return normalized ? normalized_ : raw_; }
  absl::StatusOr<bool> InsideWord(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<TokenId, size_t> by_id_;  // Index into tokens_.
  absl::flat_hash_map<std::string, size_t> by_content_;
  TokenTrie raw_;
  TokenTrie normalized_;
  std::unique_ptr<Regex> word_;  // One word character.
  int32_t id_limit_ = 0;
};

}  // namespace baton
