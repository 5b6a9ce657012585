// Python's printf-style formatting: text % arguments.
#pragma once

#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"

namespace baton {

// Conversions s, r, d, i, u, f, F, e, E, g, G, x, X, o, c and %, with flags, width, precision and
// keys. `text` is a string; `arguments` a tuple, a dict for keys, or one value. InvalidArgument
// where Python raises; Unimplemented for text that the filters escape or safe made.
absl::StatusOr<Value> PercentFormat(RenderState& state, const Value& text, const Value& arguments);

}  // namespace baton
