#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "nlohmann/json.hpp"
#include "services/client/commands.h"
#include "services/client/prompt_flags.h"
#include "services/client/router_client.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<v1::DetokenizeRequest> MakeDetokenizeRequest(const CommandLine& line) {
  v1::DetokenizeRequest request;
  BATON_ASSIGN_OR_RETURN(const auto ids, ParseIds("--ids", line.text("ids")));
  request.mutable_ids()->Assign(ids.begin(), ids.end());
  request.set_skip_special_tokens(line.on("skip-special-tokens"));
  return request;
}

absl::StatusOr<v1::TokenizeRequest> MakeTokenizeRequest(const CommandLine& line) {
  v1::TokenizeRequest request;
  if (line.given("messages")) {
    BATON_ASSIGN_OR_RETURN(*request.mutable_chat()->mutable_messages_json(),
                           ReadTextFile(line.text("messages")));
    request.mutable_chat()->set_template_kwargs_json(line.text("template-kwargs"));
  } else if (line.given("text-file")) {
    BATON_ASSIGN_OR_RETURN(*request.mutable_text(), ReadTextFile(line.text("text-file")));
  } else {
    request.set_text(absl::StrJoin(line.operands(), " "));
  }
  BATON_RETURN_IF_ERROR(CheckUtf8("text", request.text()));
  BATON_RETURN_IF_ERROR(CheckUtf8("--template-kwargs", line.text("template-kwargs")));
  request.set_add_special_tokens(line.on("add-special-tokens"));
  return request;
}

absl::StatusOr<std::string> Detokenize(const CommandLine& line, RouterClient& client,
                                       const v1::DetokenizeRequest& request) {
  BATON_ASSIGN_OR_RETURN(const v1::DetokenizeResponse response, client.Detokenize(request));
  const Json json = {{"text", response.text()}};
  return line.on("json") ? json.dump() : response.text();
}

absl::StatusOr<std::string> Tokenize(const CommandLine& line, RouterClient& client,
                                     const v1::TokenizeRequest& request) {
  BATON_ASSIGN_OR_RETURN(const v1::TokenizeResponse response, client.Tokenize(request));
  if (!line.on("json")) return absl::StrJoin(response.ids(), ",");
  Json json = {{"ids", response.ids()}};
  if (line.given("messages")) json["rendered"] = response.rendered();
  return json.dump();
}

// Sends the request, if what the line says makes one, and prints the answer.
template <typename Request, typename Send>
ExitCode Ask(const CommandLine& line, const absl::StatusOr<Request>& request, Send send) {
  if (!request.ok()) return Complain(request.status(), kExitUsage);
  const auto router = ReadConnection(line);
  if (!router.ok()) return Complain(router.status(), kExitUsage);
  RouterClient client(router->address, router->timeout);
  const absl::StatusOr<std::string> answer = send(line, client, *request);
  if (!answer.ok()) return Complain(answer.status(), ExitCodeFor(answer.status()));
  std::printf("%s\n", answer->c_str());
  return kExitOk;
}

ExitCode RunTokenize(const CommandLine& line) {
  const int sources = line.given("ids") + line.given("messages") + line.given("text-file") +
                      !line.operands().empty();
  if (sources != 1) {
    return Complain(absl::InvalidArgumentError(absl::StrCat(
                        "wanted one of TEXT, --text-file, --messages and --ids, found ", sources)),
                    kExitUsage);
  }
  if (line.given("ids")) return Ask(line, MakeDetokenizeRequest(line), Detokenize);
  return Ask(line, MakeTokenizeRequest(line), Tokenize);
}

}  // namespace

Command TokenizeCommand() {
  CommandSpec spec{.name = "tokenize",
                   .summary = "text or chat messages to token ids, or back",
                   .operands = "[TEXT]"};
  spec.flags = {{"text-file", "FILE", "", "the text from a file; - is standard input"},
                {"messages", "FILE", "", "a chat: JSON array of messages; - is standard input"},
                {"template-kwargs", "JSON", "", "further variables of the chat template"},
                {"add-special-tokens", "", "false", "with the beginning-of-sequence token"},
                {"ids", "ID,ID", "", "turn these ids into text instead"},
                {"skip-special-tokens", "", "false", "with --ids: leave special tokens out"}};
  for (FlagSpec& flag : ConnectionFlags()) spec.flags.push_back(std::move(flag));
  return {.spec = std::move(spec), .run = RunTokenize};
}

}  // namespace baton
