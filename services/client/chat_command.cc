#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "common/check.h"
#include "services/client/answer_printer.h"
#include "services/client/commands.h"
#include "services/client/conversation.h"
#include "services/client/interrupt.h"
#include "services/client/prompt_flags.h"
#include "services/client/router_client.h"

namespace baton {
namespace {

// One terminal session: the conversation so far and the call that runs.
class ChatSession {
 public:
  ChatSession(const CommandLine& line, RouterClient* client, v1::GenerateRequest request)
      : client_(client), request_(std::move(request)), json_(line.on("json")) {
    request_.mutable_chat()->set_template_kwargs_json(line.text("template-kwargs"));
    if (!line.text("system").empty()) conversation_.AddSystem(line.text("system"));
    system_ = line.text("system");
  }

  absl::Status Ask(const std::string& question) {
    if (const absl::Status status = CheckUtf8("message", question); !status.ok()) {
      Complain(status, kExitInvalid);
      return status;
    }
    conversation_.AddUser(question);
    request_.mutable_chat()->set_messages_json(conversation_.ToJson());
    AnswerPrinter printer(json_, stdout, stderr);
    printer.Start(std::chrono::steady_clock::now());
    const absl::Status status =
        client_->Generate(request_, [&printer](const v1::GenerateResponse& message) {
          printer.OnMessage(message, std::chrono::steady_clock::now());
        });
    printer.OnEnd(status, std::chrono::steady_clock::now());
    if (status.ok()) {
      conversation_.AddAnswer(printer.text());
    } else {
      conversation_.DropLast();
    }
    return status;
  }

  void Restart() {
    conversation_.Clear();
    if (!system_.empty()) conversation_.AddSystem(system_);
  }

 private:
  RouterClient* const client_;
  v1::GenerateRequest request_;
  const bool json_;
  std::string system_;
  Conversation conversation_;
};

// Reads questions until the end of input. A failed or interrupted answer does not end the session.
ExitCode Converse(ChatSession& session, bool prompt) {
  ExitCode last = kExitOk;
  std::string question;
  if (prompt) {
    std::fprintf(stderr, "Ask; /new starts over, /quit or Ctrl-D ends, Ctrl-C stops an answer.\n");
  }
  while (true) {
    if (prompt) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, question)) break;
    if (question.empty()) continue;
    if (question == "/quit") break;
    if (question == "/new") {
      session.Restart();
      continue;
    }
    const absl::Status status = session.Ask(question);
    if (prompt && absl::IsInvalidArgument(status)) {
      std::fprintf(stderr, "(The conversation is as it was before; /new starts over.)\n");
    }
    last = ExitCodeFor(status);
  }
  return prompt ? kExitOk : last;
}

ExitCode RunChat(const CommandLine& line) {
  v1::GenerateRequest request;
  for (const absl::Status& status :
       {ApplySampling(line, &request), CheckUtf8("--message", line.text("message")),
        CheckUtf8("--system", line.text("system")),
        CheckUtf8("--template-kwargs", line.text("template-kwargs"))}) {
    if (!status.ok()) return Complain(status, kExitUsage);
  }
  const auto router = ReadConnection(line);
  if (!router.ok()) return Complain(router.status(), kExitUsage);
  // Before the client, whose threads must inherit the blocked signal.
  std::atomic<RouterClient*> running{nullptr};
  const bool interactive = line.text("message").empty() && isatty(STDIN_FILENO);
  Interrupt interrupt([&running, interactive] {
    RouterClient* const client = running;
    if (client != nullptr && client->Cancel()) return;  // The answer stops, the session goes on.
    if (!interactive) std::_Exit(kExitCancelled);
    std::fprintf(stderr, "\n(Ctrl-D or /quit ends)\n> ");
  });
  RouterClient client(router->address, router->timeout);
  running = &client;
  ChatSession session(line, &client, std::move(request));
  const ExitCode code = line.text("message").empty()
                            ? Converse(session, interactive)
                            : ExitCodeFor(session.Ask(line.text("message")));
  running = nullptr;
  return code;
}

}  // namespace

Command ChatCommand() {
  CommandSpec spec{.name = "chat", .summary = "a conversation in the terminal"};
  spec.flags = {{"message", "TEXT", "", "ask this one question and end"},
                {"system", "TEXT", "", "system message"},
                {"template-kwargs", "JSON", "", "further variables of the chat template"}};
  for (FlagSpec& flag : SamplingFlags()) spec.flags.push_back(std::move(flag));
  for (FlagSpec& flag : ConnectionFlags()) spec.flags.push_back(std::move(flag));
  return {.spec = std::move(spec), .run = RunChat};
}

}  // namespace baton
