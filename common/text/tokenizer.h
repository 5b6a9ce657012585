// Text to token ids and back, as the Hugging Face `tokenizers` package does it with the same
// tokenizer.json (byte-level BPE). Owned by whoever loads a model; immutable after Load, so any
// number of threads may call it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/generation.h"
#include "common/text/added_vocabulary.h"
#include "common/text/bpe_model.h"
#include "common/text/normalizer.h"
#include "common/text/post_processor.h"
#include "common/text/pre_tokenizer.h"

namespace baton {

class Tokenizer {
 public:
  // Reads tokenizer.json and, where present, the token names of tokenizer_config.json. Errors:
  // NotFound without tokenizer.json; InvalidArgument with file, JSON path, wanted and found for
  // anything that this tokenizer would not treat as Hugging Face does.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& model_dir);

  // Added tokens spelled in `text` become their ids. `add_special_tokens`: with what the
  // post-processor puts around a text, e.g. BOS. InvalidArgument for text that is not UTF-8 (with
  // the offset of the first bad byte). Linear time for the patterns that Hugging Face models use;
  // ResourceExhausted if another pattern backtracks without end.
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text, bool add_special_tokens) const;

  // Valid UTF-8: bytes that are not become U+FFFD. `skip_special_tokens` leaves out tokens marked
  // special. InvalidArgument for an unknown id.
  absl::StatusOr<std::string> Decode(absl::Span<const TokenId> ids, bool skip_special_tokens) const;

  // Appends the bytes one token stands for; they may begin or end within a character.
  absl::Status AppendBytes(TokenId id, bool skip_special_tokens, std::string& out) const;

  std::optional<TokenId> TokenToId(std::string_view token) const;
  // The token as the vocabulary spells it; nullptr for an unknown id.
  const std::string* IdToToken(TokenId id) const;
  bool IsSpecial(TokenId id) const;
  // One more than the highest id, added tokens included.
  int32_t vocab_size() const { return vocab_size_; }

  // From tokenizer_config.json; empty where it names none.
  const std::string& bos_token() const { return bos_token_; }
  const std::string& eos_token() const { return eos_token_; }
  const std::string& pad_token() const { return pad_token_; }
  const std::string& unk_token() const { return unk_token_; }

 private:
  Tokenizer(std::unique_ptr<BpeModel> model, Normalizer normalizer, AddedVocabulary added,
            PreTokenizer pre_tokenizer);

  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(const JsonView& file);
  absl::Status ReadConfig(const JsonView& config);
  absl::Status EncodeRaw(std::string_view text, std::vector<TokenId>& ids) const;
  absl::Status EncodeNormalized(std::string_view text, std::vector<TokenId>& ids) const;

  std::unique_ptr<BpeModel> model_;
  Normalizer normalizer_;
  AddedVocabulary added_;
  PreTokenizer pre_tokenizer_;
  std::optional<PostProcessor> post_processor_;
  int32_t vocab_size_;
  std::string bos_token_;
  std::string eos_token_;
  std::string pad_token_;
  std::string unk_token_;
};

}  // namespace baton
