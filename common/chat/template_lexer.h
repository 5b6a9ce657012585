// Splits a chat template into tokens as Jinja does with trim_blocks and lstrip_blocks on: the
// newline after a block tag goes, and so does the white space before a block tag that starts its
// line; "-" and
// "+" inside a tag strip more or keep it.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/chat/template_token.h"

namespace baton {

// "line 12: what" as InvalidArgument.
absl::Status TemplateSyntaxError(int line, std::string_view what);
// "line 12: what is not supported" as Unimplemented: Jinja takes it, this interpreter does not.
absl::Status UnsupportedInTemplate(int line, std::string_view what);

// The last token is kEnd. `source` is UTF-8.
absl::StatusOr<std::vector<TemplateToken>> LexTemplate(std::string_view source);

}  // namespace baton
