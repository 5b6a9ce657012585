#include "tests/unit/common/chat/render_text.h"

#include "common/chat/chat_json.h"
#include "common/chat/chat_template.h"
#include "common/check.h"
#include "nlohmann/json.hpp"

namespace baton {

absl::StatusOr<std::string> RenderTemplate(const std::string& source, const std::string& context,
                                           ChatTemplateLimits limits) {
  BATON_ASSIGN_OR_RETURN(const auto chat_template, ChatTemplate::Parse(source, limits));
  return chat_template->Render(ParseChatJson(context));
}

std::string RenderText(const std::string& source, const std::string& context,
                       ChatTemplateLimits limits) {
  const auto text = RenderTemplate(source, context, limits);
  return text.ok() ? *text : text.status().ToString();
}

std::string Print(const std::string& expression, const std::string& context) {
  return RenderText("{{ " + expression + " }}", context);
}

}  // namespace baton
