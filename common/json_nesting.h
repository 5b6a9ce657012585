// CheckJsonNesting: keeps JSON from elsewhere from nesting so deeply that whoever copies, walks or
// prints the parsed value, level by level, runs out of stack. Pure.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace baton {

inline constexpr int kMaxJsonLevels = 100;

// InvalidArgument if arrays and objects in `text` lie more than kMaxJsonLevels deep in each other;
// `name` is the file or field. Text that is no JSON is left to the parser.
absl::Status CheckJsonNesting(std::string_view text, std::string_view name);

}  // namespace baton
