// Puts text and integers together. Takes std::string_view whether or not Abseil was built to share
// that type, which differs between distributions.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace baton {

inline void AppendPart(std::string* out, std::string_view part) { out->append(part); }
template <std::integral T>
void AppendPart(std::string* out, T part) {
  out->append(std::to_string(part));
}

template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string out;
  (AppendPart(&out, parts), ...);
  return out;
}

template <typename... Parts>
void Append(std::string* out, const Parts&... parts) {
  (AppendPart(out, parts), ...);
}

}  // namespace baton
