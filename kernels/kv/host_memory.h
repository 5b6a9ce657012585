// How much memory this machine, or the container, has for one more user. Shared memory is given out
// without being there: who takes more than there is dies when it is written.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace baton {

// Bytes. `meminfo` and `limit` are the texts of /proc/meminfo and of cgroup v2's memory.max; what a
// text does not say limits nothing. A limit counts whole: what is used of it may be files.
uint64_t AvailableBytes(absl::string_view meminfo, absl::string_view limit);

// The same of the files; those that cannot be read limit nothing.
uint64_t AvailableHostBytes();

}  // namespace baton
