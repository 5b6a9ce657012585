#include <chrono>
#include <cstdio>

#include "services/client/commands.h"
#include "services/client/prompt_flags.h"
#include "services/client/router_client.h"
#include "services/client/status_table.h"

namespace baton {
namespace {

constexpr std::chrono::milliseconds kDefaultTimeout(5000);  // A router that hangs is news, too.

ExitCode RunStatus(const CommandLine& line) {
  const auto router = ReadConnection(line);
  if (!router.ok()) return Complain(router.status(), kExitUsage);
  RouterClient client(router->address,
                      router->timeout.count() > 0 ? router->timeout : kDefaultTimeout);
  const auto model = client.GetModel();
  if (!model.ok()) return Complain(model.status(), ExitCodeFor(model.status()));
  const auto workers = client.ListWorkers();
  if (!workers.ok()) return Complain(workers.status(), ExitCodeFor(workers.status()));
  const std::string text =
      line.on("json") ? WorkerJson(*model, *workers) : WorkerTable(*model, *workers);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

Command StatusCommand() {
  CommandSpec spec{.name = "status",
                   .summary = "the workers as the router sees them: load, KV use, transport",
                   .flags = ConnectionFlags()};
  return {.spec = std::move(spec), .run = RunStatus};
}

}  // namespace baton
