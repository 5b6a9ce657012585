// Checks of a checkpoint's text side against cases that a reference made: `baton check
// --tokenizer-cases` and `--chat-cases`. Formats: tests/fixtures/oracle/README.md.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/chat_template.h"
#include "common/text/tokenizer.h"

namespace baton {

struct TextCheckReport {
  int case_count = 0;
  std::vector<std::string> differences;  // One line each: case, what, wanted, found.
};

// Each case: text, ids, ids_bos, decoded, decoded_skip. Streaming detokenization is compared too.
// InvalidArgument for a file of another shape.
absl::StatusOr<TextCheckReport> CheckTokenizerCases(const std::string& cases_json,
                                                    const Tokenizer& tokenizer);

// Each case: messages, tools, kwargs, text, ids.
absl::StatusOr<TextCheckReport> CheckChatCases(const std::string& cases_json,
                                               const Tokenizer& tokenizer,
                                               const ChatTemplate& chat_template);

}  // namespace baton
