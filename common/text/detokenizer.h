// Text of one token stream as it grows. Owned by the stream; one thread at a time.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"

namespace baton {

class StreamDetokenizer {
 public:
  // `tokenizer` must outlive the stream.
  StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that `id` completes: whole characters only; bytes that no further token can complete
  // come as U+FFFD. InvalidArgument for an unknown id, and the stream is as before.
  absl::StatusOr<std::string> Push(TokenId id);

  // What is left, as U+FFFD where it is not a whole character. All texts returned, joined, equal
  // Tokenizer::Decode of all ids. The stream is empty again after it.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_tokens_;
  std::string pending_;  // The beginning of a character, at most 3 bytes between calls.
};

}  // namespace baton
