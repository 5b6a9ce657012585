// Quoted: text from a file, fit for an error message.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace baton {

// "text" with control and non-UTF-8 characters escaped, and cut after 200 bytes.
inline std::string Quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  const char* cut = text.size() > kMaxBytes ? "…" : "";
  const std::string shown(text.substr(0, kMaxBytes));
  return absl::StrCat("\"", absl::Utf8SafeCEscape(shown), cut, "\"");
}

}  // namespace baton
