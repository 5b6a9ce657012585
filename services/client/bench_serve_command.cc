#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "services/client/commands.h"
#include "services/client/load_runner.h"
#include "services/client/prompt_flags.h"
#include "services/client/serve_report.h"

namespace baton {
namespace {

constexpr int64_t kMaxRequests = 1 << 20;
constexpr size_t kMaxLanes = 512;
constexpr double kMaxRate = 1e5;
constexpr double kMaxSeconds = 3600;
// Steady rows that are prefilled together still settle after their first tokens.
constexpr std::chrono::milliseconds kSettle(500);

struct ServeLoad {
  LoadTarget target;
  LoadPlanOptions plan;
  size_t concurrency = 1;
  uint32_t steady_rows = 0;
  LoadPlanOptions steady;
  double alone_seconds = 0;
  LatencyBounds bounds;
  std::string words;
};

absl::Status ReadLengths(const CommandLine& line, const std::string& prefix,
                         const v1::GetModelResponse& model, LoadPlanOptions* plan) {
  const auto read = [&](const std::string& flag) -> absl::StatusOr<LengthDistribution> {
    auto parsed = LengthDistribution::Parse(line.text(flag), model.context_tokens());
    if (parsed.ok()) return parsed;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", parsed.status().message()));
  };
  BATON_ASSIGN_OR_RETURN(plan->prompt, read(prefix + "prompt-tokens"));
  BATON_ASSIGN_OR_RETURN(plan->output, read(prefix + "output-tokens"));
  const uint64_t longest = uint64_t{plan->prompt.longest()} + plan->output.longest();
  if (longest <= model.context_tokens()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", prefix, "prompt-tokens and --", prefix, "output-tokens: wanted at most ",
                   model.context_tokens(), " together, found ", longest));
}

absl::Status ReadPace(const CommandLine& line, ServeLoad* load) {
  if (line.given("rate") && line.given("concurrency")) {
    return absl::InvalidArgumentError("wanted one of --rate and --concurrency, found both");
  }
  BATON_ASSIGN_OR_RETURN(const int64_t requests, line.integer("requests", 1, kMaxRequests));
  load->plan.request_count = static_cast<uint32_t>(requests);
  BATON_ASSIGN_OR_RETURN(load->plan.seed, line.unsigned_integer("seed"));
  if (line.given("rate")) {
    BATON_ASSIGN_OR_RETURN(load->plan.rate, line.number("rate", 1e-3, kMaxRate));
    load->concurrency = kMaxLanes;
    load->words = absl::StrFormat("%d requests, Poisson at %g a second", requests, load->plan.rate);
  } else {
    BATON_ASSIGN_OR_RETURN(const int64_t lanes, line.integer("concurrency", 1, kMaxLanes));
    load->concurrency = static_cast<size_t>(lanes);
    load->words = absl::StrFormat("%d requests, %d at a time", requests, lanes);
  }
  absl::StrAppend(&load->words, ", prompts ", line.text("prompt-tokens"), ", answers ",
                  line.text("output-tokens"));
  return absl::OkStatus();
}

absl::Status ReadSteady(const CommandLine& line, ServeLoad* load) {
  BATON_ASSIGN_OR_RETURN(const int64_t rows, line.integer("steady-rows", 0, kMaxLanes));
  load->steady_rows = static_cast<uint32_t>(rows);
  load->steady.seed = load->plan.seed + (uint64_t{1} << 32);
  BATON_ASSIGN_OR_RETURN(load->alone_seconds, line.number("steady-alone-seconds", 0, kMaxSeconds));
  if (rows > 0) {
    absl::StrAppend(&load->words, "; ", rows, " steady rows, prompts ",
                    line.text("steady-prompt-tokens"), ", answers ",
                    line.text("steady-output-tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<double>> ReadBound(const CommandLine& line, const std::string& flag) {
  if (!line.given(flag)) return std::nullopt;
  BATON_ASSIGN_OR_RETURN(const double bound, line.number(flag, 0, kMaxSeconds * 1e3));
  return bound;
}

absl::StatusOr<ServeLoad> ReadLoad(const CommandLine& line, const RouterAddress& router,
                                   const v1::GetModelResponse& model) {
  ServeLoad load;
  load.target = {
      .router = router.address, .timeout = router.timeout, .vocab_size = model.vocab_size()};
  BATON_RETURN_IF_ERROR(ReadLengths(line, "", model, &load.plan));
  BATON_RETURN_IF_ERROR(ReadPace(line, &load));
  BATON_RETURN_IF_ERROR(ReadLengths(line, "steady-", model, &load.steady));
  BATON_RETURN_IF_ERROR(ReadSteady(line, &load));
  BATON_ASSIGN_OR_RETURN(load.bounds.first_token_ms, ReadBound(line, "ttft-bound-ms"));
  BATON_ASSIGN_OR_RETURN(load.bounds.inter_token_ms, ReadBound(line, "itl-bound-ms"));
  return load;
}

absl::StatusOr<ServeReport> Measure(const ServeLoad& load) {
  ServeReport report{.load = load.words};
  std::optional<SteadyRows> steady;
  TimeWindow alone;
  if (load.steady_rows > 0) {
    steady.emplace(load.steady_rows, load.steady, load.target);
    BATON_RETURN_IF_ERROR(steady->WaitDecoding());
    std::this_thread::sleep_for(kSettle);
    alone.begin_s = LoadClockSeconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(load.alone_seconds));
    alone.end_s = LoadClockSeconds();
  }
  const std::vector<PlannedRequest> plan = PlanLoad(load.plan);
  const LoadRun run = RunLoad(plan, std::min(load.concurrency, plan.size()), load.target);
  const TimeWindow beside{.begin_s = run.begin_s, .end_s = LoadClockSeconds()};
  report.requests = SummarizeLoad(run.streams, run.begin_s, load.bounds);
  report.late_count = run.late_count;
  if (!steady) return report;
  const std::vector<StreamRecord> rows = steady->Stop();
  report.steady = SteadyReport{.row_count = load.steady_rows,
                               .alone = SummarizeGaps(rows, alone),
                               .beside = SummarizeGaps(rows, beside)};
  for (const StreamRecord& row : rows) {
    if (!row.status.ok()) report.steady->failure = row.status;
  }
  return report;
}

ExitCode RunBenchServe(const CommandLine& line) {
  const auto router = ReadConnection(line);
  if (!router.ok()) return Complain(router.status(), kExitUsage);
  const auto model = RouterClient(router->address, std::chrono::seconds(10)).GetModel();
  if (!model.ok()) return Complain(model.status(), ExitCodeFor(model.status()));
  const auto load = ReadLoad(line, *router, *model);
  if (!load.ok()) return Complain(load.status(), kExitUsage);
  const auto report = Measure(*load);
  if (!report.ok()) return Complain(report.status(), ExitCodeFor(report.status()));
  std::printf("%s%s", (line.on("json") ? ServeJson(*report) : ServeTable(*report)).c_str(),
              line.on("json") ? "\n" : "");
  if (report->requests.failed > 0) return ExitCodeFor(report->requests.first_failure);
  if (report->steady && !report->steady->failure.ok()) return ExitCodeFor(report->steady->failure);
  return kExitOk;
}

}  // namespace

Command BenchServeCommand() {
  CommandSpec spec{.name = "bench serve",
                   .summary = "puts a load on a running stack and measures its latencies"};
  const std::string lengths =
      ": N, uniform:LOWEST:HIGHEST, lognormal:MEDIAN:SIGMA:MOST, or several "
      "with + between and *WEIGHT";
  spec.flags = {
      {"requests", "N", "64", "requests of the load"},
      {"rate", "R", "", "open loop: requests a second, as a Poisson process"},
      {"concurrency", "N", "1", "closed loop: requests at a time"},
      {"prompt-tokens", "LENGTHS", "512", "prompt lengths" + lengths},
      {"output-tokens", "LENGTHS", "128", "answer lengths, likewise"},
      {"seed", "N", "1", "of lengths, arrivals and prompts; equal seeds give equal loads"},
      {"ttft-bound-ms", "MS", "", "goodput: bound on the time to first token"},
      {"itl-bound-ms", "MS", "", "goodput: bound on inter-token latency, for 99 % of the tokens"},
      {"steady-rows", "N", "0", "streams that decode all the while, reported apart"},
      {"steady-prompt-tokens", "LENGTHS", "512", "their prompts"},
      {"steady-output-tokens", "LENGTHS", "2048", "their answers; each asks anew at its end"},
      {"steady-alone-seconds", "S", "5", "how long they are measured before the load begins"}};
  for (FlagSpec& flag : ConnectionFlags()) spec.flags.push_back(std::move(flag));
  return {.spec = std::move(spec), .run = RunBenchServe};
}

}  // namespace baton
