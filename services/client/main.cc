// baton: the command-line client.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/log.h"
#include "services/client/commands.h"

namespace baton {
namespace {

std::vector<Command> AllCommands() {
  return {GenerateCommand(), ChatCommand(),        TokenizeCommand(),     StatusCommand(),
          CheckCommand(),    BenchDecodeCommand(), BenchPrefillCommand(), BenchServeCommand()};
}

// Those whose name begins with `group`.
void PrintCommands(const std::vector<Command>& commands, const std::string& group) {
  std::printf("Commands:\n");
  for (const Command& command : commands) {
    if (!command.spec.name.starts_with(group)) continue;
    std::printf("  %-14s %s\n", command.spec.name.c_str(), command.spec.summary.c_str());
  }
}

void PrintHelp(const std::vector<Command>& commands, bool every_flag) {
  std::printf("baton: client of a Baton router\n\nUsage: baton COMMAND [flags]\n\n");
  PrintCommands(commands, "");
  std::printf("\n`baton COMMAND --help` lists a command's flags.\n\n%s", ExitCodeHelp().c_str());
  if (!every_flag) return;
  for (const Command& command : commands) std::printf("\n%s", HelpText(command.spec).c_str());
}

// How many of the arguments the command's name takes ("bench decode": two); 0: it is another one's.
size_t WordsOf(const Command& command, const std::vector<std::string>& arguments) {
  const std::vector<std::string> words = absl::StrSplit(command.spec.name, ' ');
  const bool named =
      words.size() <= arguments.size() && std::equal(words.begin(), words.end(), arguments.begin());
  return named ? words.size() : 0;
}

int Run(const std::vector<std::string>& arguments) {
  const std::vector<Command> commands = AllCommands();
  const std::string name = arguments.empty() ? "" : arguments[0];
  if (name.empty() || name == "--help" || name == "-h" || name == "help" || name == "--helpfull") {
    PrintHelp(commands, name == "--helpfull");
    return name.empty() ? kExitUsage : kExitOk;
  }
  for (const Command& command : commands) {
    const size_t words = WordsOf(command, arguments);
    if (words == 0) continue;
    const auto line =
        CommandLine::Parse(command.spec, absl::MakeConstSpan(arguments).subspan(words));
    if (!line.ok()) return Complain(line.status(), kExitUsage);
    if (line->help()) {
      std::printf("%s\n%s", HelpText(command.spec).c_str(), ExitCodeHelp().c_str());
      return kExitOk;
    }
    return command.run(*line);
  }
  const bool is_group = std::any_of(commands.begin(), commands.end(), [&](const Command& command) {
    return command.spec.name.starts_with(name + " ");
  });
  const std::string next = arguments.size() > 1 ? arguments[1] : "";
  if (is_group && (next.empty() || next == "--help" || next == "-h")) {
    PrintCommands(commands, name + " ");
    return next.empty() ? kExitUsage : kExitOk;
  }
  const std::string unknown = is_group ? name + " " + next : name;
  return Complain(
      absl::InvalidArgumentError("unknown command \"" + unknown + "\"; see baton --help"),
      kExitUsage);
}

}  // namespace

ExitCode Complain(const absl::Status& status, ExitCode code) {
  std::fprintf(stderr, "baton: %s\n", std::string(status.message()).c_str());
  return code;
}

}  // namespace baton

int main(int argc, char** argv) {
  baton::InitLogging("client", "info");
  const int code = baton::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const absl::Status lost = absl::DataLossError("standard output could not be written to its end");
  return code == baton::kExitOk ? baton::Complain(lost, baton::kExitFailed) : code;
}
