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

void PrintHelp(const std::vector<Command>& commands, bool every_flag) {
  std::printf("baton: client of a Baton router\n\nUsage: baton COMMAND [flags]\n\nCommands:\n");
  for (const Command& command : commands) {
    std::printf("  %-14s %s\n", command.spec.name.c_str(), command.spec.summary.c_str());
  }
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
  return Complain(absl::InvalidArgumentError("unknown command \"" + name + "\"; see baton --help"),
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
  return baton::Run(std::vector<std::string>(argv + 1, argv + argc));
}
