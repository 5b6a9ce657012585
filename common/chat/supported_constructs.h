// What a template may name that Jinja knows and this interpreter does not: found at start, so that
// no request meets it. Pure functions over parsed expressions.
#pragma once

#include "absl/status/status.h"
#include "common/chat/template_ast.h"

namespace baton {

// Each: Unimplemented "line N: filter 'foo' is not supported" and the like.
absl::Status CheckFilterIsSupported(const Expression& filter);
absl::Status CheckTestIsSupported(const Expression& test);
// `callee`: what stands before the parenthesis.
absl::Status CheckCallIsSupported(const Expression& callee);

}  // namespace baton
