// baton-template-dump: a line protocol around the chat template, for the differential test.
//   baton-template-dump < requests > answers
// A request is one line: a JSON object {"template": TEXT, "contexts": [OBJECT ...]}. Its answer is
// one line: {"results": [{"text": ..} or {"error": .., "code": ..} ...]}, or {"error": .., "code":
// ..} when the template itself is refused.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/chat/chat_json.h"
#include "common/chat/chat_template.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json Error(const absl::Status& status) {
  return {{"error", std::string(status.message())},
          {"code", absl::StatusCodeToString(status.code())}};
}

Json Answer(const Json& request) {
  const auto chat_template = ChatTemplate::Parse(request.at("template").get<std::string>());
  if (!chat_template.ok()) return Error(chat_template.status());
  Json results = Json::array();
  for (const Json& context : request.at("contexts")) {
    const auto text = (*chat_template)->Render(context);
    results.push_back(text.ok() ? Json{{"text", *text}} : Error(text.status()));
  }
  return {{"results", std::move(results)}};
}

int Main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << Answer(ParseChatJson(line)).dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace baton

int main() { return baton::Main(); }
