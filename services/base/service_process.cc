#include "services/base/service_process.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/log.h"
#include "services/base/flag_ranges.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:0", "host:port for gRPC; port 0 picks a free one");
ABSL_FLAG(std::string, metrics_listen, "127.0.0.1:0",
          "host:port for Prometheus (GET /metrics); port 0 picks a free one, empty is none");
ABSL_FLAG(std::string, log_level, "info", "trace, debug, info, warn, error or off");
ABSL_FLAG(int, drain_seconds, 30,
          "after SIGTERM, wait this long for requests in flight before cancelling them");

namespace baton {
namespace {

sigset_t ShutdownSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Grace for gRPC to flush what was written before the connections close.
constexpr std::chrono::milliseconds kStopGrace(500);

}  // namespace

ShutdownSignal::ShutdownSignal() {
  const sigset_t set = ShutdownSet();
  BATON_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
}

int ShutdownSignal::Wait() {
  const sigset_t set = ShutdownSet();
  int number = 0;
  BATON_CHECK(sigwait(&set, &number) == 0);
  BATON_CHECK(pthread_sigmask(SIG_UNBLOCK, &set, nullptr) == 0);
  return number;
}

void ParseServiceFlags(int argc, char** argv, const std::string& role) {
  std::vector<std::string> arguments(argv, argv + argc);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    if (argument.starts_with("--")) {
      const size_t end = std::min(argument.find('='), argument.size());
      std::replace(argument.begin() + 2, argument.begin() + static_cast<ptrdiff_t>(end), '-', '_');
    }
    pointers.push_back(argument.data());
  }
  absl::SetProgramUsageMessage(
      absl::StrCat("baton-", role, " [flags]; their names may be written with dashes"));
  const auto is_ours = [](absl::string_view file) { return absl::StrContains(file, "services/"); };
  absl::SetFlagsUsageConfig({.contains_helpshort_flags = is_ours, .contains_help_flags = is_ours});
  const std::vector<char*> rest =
      absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  if (rest.size() > 1) {
    std::fprintf(stderr, "baton-%s: unexpected argument \"%s\"\n", role.c_str(), rest[1]);
    std::exit(2);
  }
  InitLogging(role, absl::GetFlag(FLAGS_log_level));
}

absl::Status CheckCommonFlags(const std::string& model) {
  if (model.empty()) {
    return absl::InvalidArgumentError("--model: wanted a checkpoint directory, found none");
  }
  const std::string level = absl::GetFlag(FLAGS_log_level);
  const std::vector<std::string> levels = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--log_level: wanted one of ", absl::StrJoin(levels, ", "), ", found \"", level, "\""));
  }
  return CheckFlagRanges({{"drain_seconds", absl::GetFlag(FLAGS_drain_seconds), 0, 86400}});
}

void AnnounceListening(const GrpcServer& server, int metrics_port) {
  std::printf("listening address=%s metrics_port=%d\n", server.address().c_str(), metrics_port);
  std::fflush(stdout);
  spdlog::info("msg=\"serving\" address={} metrics_port={}", server.address(), metrics_port);
}

void DrainAndStop(const DrainSteps& steps) {
  const int drain_seconds = absl::GetFlag(FLAGS_drain_seconds);
  spdlog::info("msg=\"draining\" in_flight={} limit_seconds={}", steps.gate->in_flight_count(),
               drain_seconds);
  steps.server->SetServing(false);
  steps.gate->BeginDrain();
  if (steps.announce) steps.announce();
  if (!steps.gate->WaitEmpty(std::chrono::seconds(drain_seconds))) {
    spdlog::warn("msg=\"drain limit reached, cancelling\" in_flight={}",
                 steps.gate->in_flight_count());
  }
  if (steps.close) steps.close();
  steps.server->Stop(kStopGrace);
  spdlog::info("msg=\"stopped\"");
}

}  // namespace baton
