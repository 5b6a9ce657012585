#include "common/json_nesting.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace baton {

absl::Status CheckJsonNesting(std::string_view text, std::string_view name) {
  int levels = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;  // Whatever is escaped ends no string.
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == ']' || c == '}') {
      --levels;
    } else if ((c == '[' || c == '{') && ++levels > kMaxJsonLevels) {
      return absl::InvalidArgumentError(absl::StrCat(std::string(name), ": wanted JSON of at most ",
                                                     kMaxJsonLevels, " levels, found more"));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
