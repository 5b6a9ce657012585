#include "services/base/flag_ranges.h"

#include "absl/strings/str_cat.h"

namespace baton {

absl::Status CheckFlagRanges(std::initializer_list<FlagRange> flags) {
  for (const FlagRange& flag : flags) {
    if (flag.value >= flag.lowest && flag.value <= flag.highest) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag.name, ": wanted ", flag.lowest,
                                                   " to ", flag.highest, ", found ", flag.value));
  }
  return absl::OkStatus();
}

}  // namespace baton
