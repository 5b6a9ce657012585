// Parses a chat template into statements, or refuses it with line and construct.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/template_ast.h"

namespace baton {

// InvalidArgument "line N: ...": not a Jinja template; Unimplemented "line N: ... is not
// supported": it needs something that this interpreter does not have.
absl::StatusOr<StatementList> ParseTemplate(std::string_view source);

}  // namespace baton
