// The tokens inside a template's tags: names, literals, operators. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/chat/template_token.h"

namespace baton {

struct LexedToken {
  TemplateToken token;
  size_t bytes = 0;
};

// The token at the start of `text`, which is not empty and does not start with white space.
// `after_dot`: a "." stands right before, so that "0.1" there is two subscripts and no float.
absl::StatusOr<LexedToken> LexExpressionToken(std::string_view text, int line, bool after_dot);

// Keeps the stack of open brackets; InvalidArgument when `token` closes another one than is open.
absl::Status TrackBrackets(const TemplateToken& token, std::string* open_brackets);

}  // namespace baton
