#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"

namespace baton {
namespace {

std::string Escaped(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') return {'\\', c};
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (byte < 0x20 || byte == 0x7f) return absl::StrFormat("\\x%02x", byte);
  return {c};
}

}  // namespace

std::string LogText(std::string_view text) {
  size_t shown = std::min(text.size(), kMaxLogTextBytes);
  const auto continues = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  while (shown < text.size() && shown > 0 && continues(shown)) --shown;
  std::string quoted = "\"";
  for (const char c : text.substr(0, shown)) quoted += Escaped(c);
  return quoted + (shown < text.size() ? "…\"" : "\"");
}

void InitLogging(std::string_view role, std::string_view level) {
  auto logger =
      std::make_shared<spdlog::logger>("baton", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%e level=%l role=" + std::string(role) +
                      " pid=%P %v");
  const std::string name(level);
  const auto parsed = spdlog::level::from_str(name);
  logger->set_level(parsed == spdlog::level::off && name != "off" ? spdlog::level::info : parsed);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
  if (parsed == spdlog::level::off && name != "off") {
    spdlog::warn(
        "msg=\"unknown log level, using info\" wanted=\"trace|debug|info|warn|error|off\" "
        "found={}",
        LogText(name));
  }
}

}  // namespace baton
