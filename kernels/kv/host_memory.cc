#include "kernels/kv/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

std::string ReadFile(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

uint64_t AvailableBytes(absl::string_view meminfo, absl::string_view limit) {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    uint64_t kib = 0;
    if (absl::ConsumePrefix(&line, "MemAvailable:") && absl::ConsumeSuffix(&line, "kB") &&
        absl::SimpleAtoi(line, &kib)) {
      bytes = kib << 10;
    }
  }
  uint64_t most = 0;
  if (absl::SimpleAtoi(limit, &most)) bytes = std::min(bytes, most);
  return bytes;
}

uint64_t AvailableHostBytes() {
  return AvailableBytes(ReadFile("/proc/meminfo"), ReadFile("/sys/fs/cgroup/memory.max"));
}

}  // namespace baton
