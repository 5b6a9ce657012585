// Checks numeric flags of the services against what they may be, before anything is started. Pure.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"

namespace baton {

struct FlagRange {
  const char* name;  // Without dashes.
  int64_t value;
  int64_t lowest;
  int64_t highest;
};

// InvalidArgument names the first flag outside its range, what was wanted and what was found.
absl::Status CheckFlagRanges(std::initializer_list<FlagRange> flags);

}  // namespace baton
