// JSON into values and, as Python's json.dumps writes it, values into JSON.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"
#include "nlohmann/json_fwd.hpp"

namespace baton {

// Keeps the order of keys; a binary value is an integer of ParseChatJson. InvalidArgument: text
// that is not UTF-8; ResourceExhausted: too deep or too large; Unimplemented: an integer beyond 128
// bits.
absl::StatusOr<Value> ValueFromJson(RenderState& state, const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level of indentation; nothing: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// InvalidArgument for values that have no JSON form (undefined, iterators, tuples as keys ...).
absl::StatusOr<std::string> ValueToJson(RenderState& state, const Value& value,
                                        const JsonStyle& style);

}  // namespace baton
