#include "common/text/detokenizer.h"

#include "common/check.h"
#include "common/text/utf8.h"

namespace baton {

absl::StatusOr<std::string> StreamDetokenizer::Push(TokenId id) {
  BATON_RETURN_IF_ERROR(tokenizer_.AppendBytes(id, skip_special_tokens_, pending_));
  std::string text;
  pending_.erase(0, AppendUtf8Lossy(pending_, /*at_end=*/false, text));
  return text;
}

std::string StreamDetokenizer::Flush() {
  std::string text;
  AppendUtf8Lossy(pending_, /*at_end=*/true, text);
  pending_.clear();
  return text;
}

}  // namespace baton
