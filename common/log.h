// Structured logs: one line per event, `key=value` fields, to standard error through spdlog.
// Thread-safe. Call InitLogging once, first thing in main.
#pragma once

#include <spdlog/spdlog.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace baton {

// Sets the process' log format. `role` ("router", "decode", …) stands in every line; `level` is one
// of trace, debug, info, warn, error (an unknown name falls back to info and says so in a warning).
void InitLogging(std::string_view role, std::string_view level);

// `text` as the value of one field: in quotes; quotes, backslashes and control characters escaped,
// so that text from elsewhere cannot end the field or the line. Cut after kMaxLogTextBytes.
inline constexpr size_t kMaxLogTextBytes = 1000;
std::string LogText(std::string_view text);

}  // namespace baton
