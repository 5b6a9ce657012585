#include "services/client/conversation.h"

#include <algorithm>

namespace baton {
namespace {

constexpr std::string_view kTokenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
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
    const size_t close = text.find_first_not_of(kTokenCharacters, open + 2);
    if (close > open + 2 && text.substr(std::min(close, text.size())).starts_with("|>")) {
      text.remove_prefix(close + 2);
    } else {
      visible += "<|";
      text.remove_prefix(open + 2);
    }
  }
  return visible;
}

}  // namespace baton
