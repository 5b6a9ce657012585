// Where a test of processes finds programs and models, and leaves logs: in the build's folders, or
// where the environment says, for a test that was copied to another machine.
#pragma once

#include <cstdlib>
#include <string>

namespace baton {

inline std::string PlaceFrom(const char* variable, const std::string& otherwise) {
  const char* const place = std::getenv(variable);
  return place != nullptr ? place : otherwise;
}

inline std::string SourceDir() { return PlaceFrom("BATON_TEST_ROOT", BATON_SOURCE_DIR); }
inline std::string ProgramDir() {
  return PlaceFrom("BATON_TEST_PROGRAMS", std::string(BATON_BINARY_DIR) + "/bin");
}
inline std::string SystemLogDir() {
  return PlaceFrom("BATON_TEST_LOGS", std::string(BATON_BINARY_DIR) + "/system");
}

}  // namespace baton
