#include "services/base/incarnation.h"

#include <sys/random.h>

#include <array>
#include <cstdint>

#include "common/check.h"

namespace baton {

std::string MakeIncarnation() {
  std::array<uint8_t, 16> bytes;
  BATON_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::string hex;
  for (uint8_t byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace baton
