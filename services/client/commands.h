// The subcommands of `baton`: what each takes and does. Run on main's thread; each returns an exit
// status and has printed its errors.
#pragma once

#include <functional>
#include <vector>

#include "services/client/command_line.h"
#include "services/client/exit_code.h"

namespace baton {

struct Command {
  CommandSpec spec;
  std::function<ExitCode(const CommandLine&)> run;
};

Command GenerateCommand();
Command ChatCommand();
Command TokenizeCommand();
Command StatusCommand();
Command CheckCommand();
Command BenchDecodeCommand();
Command BenchPrefillCommand();
Command BenchServeCommand();

// Prints "baton: message" to standard error.
ExitCode Complain(const absl::Status& status, ExitCode code);

}  // namespace baton
