// JSON text of a chat (messages, tools, arguments of a template) into what ChatTemplate::Render
// takes. Pure.
#pragma once

#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace baton {

// As ordered_json::parse, but an integer beyond 64 bits keeps its digits instead of becoming a
// double: it is a binary value, which JSON text has none of, that holds them. Discarded if `text`
// is not JSON. Bound the nesting before (CheckJsonNesting).
nlohmann::ordered_json ParseChatJson(std::string_view text);

}  // namespace baton
