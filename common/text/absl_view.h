// std::string_view for Abseil builds whose absl::string_view is a type of its own (Debian 12's).
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace baton {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace baton
