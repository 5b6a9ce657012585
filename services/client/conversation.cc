#include "services/client/conversation.h"

namespace baton {
namespace {

constexpr std::string_view kThinkingEnd = "<|END_THINKING|>";

}  // namespace

std::string Conversation::VisibleText(std::string_view text) {
  if (const size_t end = text.rfind(kThinkingEnd); end != std::string_view::npos) {
    text.remove_prefix(end + kThinkingEnd.size());
  }
  std::string visible;
  while (!text.empty()) {
    const size_t open = text.find("<|");
    visible += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find("|>", open);
    if (close == std::string_view::npos) {
      visible += text.substr(open);
      break;
    }
    text.remove_prefix(close + 2);
  }
  return visible;
}

}  // namespace baton
