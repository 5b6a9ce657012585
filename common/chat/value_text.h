// Values as Python prints them: str() and repr().
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"

namespace baton {

// Appends str(value). ResourceExhausted by `state`'s budget (shared values can print far larger
// than they are).
absl::Status AppendText(RenderState& state, const Value& value, std::string* out);
absl::Status AppendRepr(RenderState& state, const Value& value, std::string* out);
absl::StatusOr<std::string> ValueText(RenderState& state, const Value& value);

// repr() of a str: the quotes that need least escaping.
std::string QuotePythonString(std::string_view text);

}  // namespace baton
