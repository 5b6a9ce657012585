#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "services/client/answer_printer.h"
#include "services/client/commands.h"
#include "services/client/interrupt.h"
#include "services/client/prompt_flags.h"
#include "services/client/router_client.h"

namespace baton {
namespace {

absl::StatusOr<v1::GenerateRequest> MakeRequest(const CommandLine& line) {
  v1::GenerateRequest request;
  BATON_RETURN_IF_ERROR(ApplySampling(line, &request));
  const int sources = line.given("prompt") + line.given("prompt-file") + line.given("token-ids") +
                      line.given("messages");
  if (sources != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted one of --prompt, --prompt-file, --token-ids and --messages, found ", sources));
  }
  if (line.given("template-kwargs") && !line.given("messages")) {
    return absl::InvalidArgumentError("--template-kwargs: wanted with --messages, found without");
  }
  BATON_RETURN_IF_ERROR(CheckUtf8("--prompt", line.text("prompt")));
  if (line.given("prompt")) request.set_text(line.text("prompt"));
  if (line.given("prompt-file")) {
    BATON_ASSIGN_OR_RETURN(*request.mutable_text(), ReadTextFile(line.text("prompt-file")));
  }
  if (line.given("token-ids")) {
    BATON_ASSIGN_OR_RETURN(const auto ids, ParseIds("--token-ids", line.text("token-ids")));
    request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  }
  if (line.given("messages")) {
    BATON_ASSIGN_OR_RETURN(*request.mutable_chat()->mutable_messages_json(),
                           ReadTextFile(line.text("messages")));
    BATON_RETURN_IF_ERROR(CheckUtf8("--template-kwargs", line.text("template-kwargs")));
    request.mutable_chat()->set_template_kwargs_json(line.text("template-kwargs"));
  }
  request.set_return_logprobs(line.on("logprobs"));
  request.set_skip_special_tokens(line.on("skip-special-tokens"));
  return request;
}

ExitCode RunGenerate(const CommandLine& line) {
  const auto request = MakeRequest(line);
  if (!request.ok()) return Complain(request.status(), kExitUsage);
  const auto router = ReadConnection(line);
  if (!router.ok()) return Complain(router.status(), kExitUsage);
  // Before the client, whose threads must inherit the blocked signal.
  std::atomic<RouterClient*> running{nullptr};
  Interrupt interrupt([&running] {
    RouterClient* const client = running;
    if (client == nullptr || !client->Cancel()) std::_Exit(kExitCancelled);
  });
  RouterClient client(router->address, router->timeout);
  running = &client;
  AnswerPrinter printer(line.on("json"), stdout, stderr);
  printer.Start(std::chrono::steady_clock::now());
  const absl::Status status =
      client.Generate(*request, [&printer](const v1::GenerateResponse& message) {
        printer.OnMessage(message, std::chrono::steady_clock::now());
      });
  running = nullptr;
  printer.OnEnd(status, std::chrono::steady_clock::now());
  return ExitCodeFor(status);
}

}  // namespace

Command GenerateCommand() {
  CommandSpec spec{.name = "generate", .summary = "completes one prompt and streams the answer"};
  spec.flags = {
      {"prompt", "TEXT", "", "the prompt; tokenized with the beginning-of-sequence token"},
      {"prompt-file", "FILE", "", "the prompt from a file; - is standard input"},
      {"token-ids", "ID,ID", "", "the prompt as token ids, used as they are"},
      {"messages", "FILE", "", "a chat: JSON array of messages; - is standard input"},
      {"template-kwargs", "JSON", "", "further variables of the chat template"},
      {"logprobs", "", "false", "with --json: each token's log-probability"},
      {"skip-special-tokens", "", "false", "leave special tokens out of the text"}};
  for (FlagSpec& flag : SamplingFlags()) spec.flags.push_back(std::move(flag));
  for (FlagSpec& flag : ConnectionFlags()) spec.flags.push_back(std::move(flag));
  return {.spec = std::move(spec), .run = RunGenerate};
}

}  // namespace baton
