// Renders small templates in tests. Free of heavy headers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/chat/chat_template_limits.h"

namespace baton {

// The text of `source` over the JSON object `context`; the status of Parse or of Render otherwise.
absl::StatusOr<std::string> RenderTemplate(const std::string& source,
                                           const std::string& context = "{}",
                                           ChatTemplateLimits limits = {});

// The same as one string; "CODE: message" for an error.
std::string RenderText(const std::string& source, const std::string& context = "{}",
                       ChatTemplateLimits limits = {});

// RenderText("{{ expression }}").
std::string Print(const std::string& expression, const std::string& context = "{}");

}  // namespace baton
