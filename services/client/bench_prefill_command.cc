#include <cstdio>
#include <memory>
#include <string>

#include "common/check.h"
#include "kernels/models/checkpoint.h"
#include "kernels/models/north_geometry.h"
#include "kernels/prefill_benchmark_factory.h"
#include "services/client/bench_plan.h"
#include "services/client/bench_table.h"
#include "services/client/commands.h"

namespace baton {
namespace {

constexpr int kMaxChunkTokens = 65536;
constexpr int kMaxRepeats = 1000;

absl::StatusOr<PrefillBenchmarkOptions> ReadOptions(const CommandLine& line,
                                                    const Checkpoint* checkpoint) {
  PrefillBenchmarkOptions options{.checkpoint = checkpoint, .pinned = line.on("pinned")};
  BATON_ASSIGN_OR_RETURN(const int64_t layers, line.integer("layers", 1, kNorthLayers));
  BATON_ASSIGN_OR_RETURN(const int64_t chunk, line.integer("chunk-tokens", 1, kMaxChunkTokens));
  BATON_ASSIGN_OR_RETURN(const int64_t repeats, line.integer("repeats", 1, kMaxRepeats));
  BATON_ASSIGN_OR_RETURN(options.points, PrefillPoints(line));
  options.layers = static_cast<int>(layers);
  options.chunk_tokens = static_cast<int>(chunk);
  options.repeats = static_cast<int>(repeats);
  return options;
}

absl::Status Measure(const CommandLine& line, const PrefillBenchmarkOptions& options,
                     PrefillBenchmark& benchmark) {
  const bool json = line.on("json");
  if (!json) {
    std::printf("%s on %s: weights %.2f GB, chunks of %d%s\n%s\n",
                options.checkpoint == nullptr ? "random weights" : line.text("model").c_str(),
                benchmark.device().c_str(), benchmark.weight_bytes() * 1e-9, options.chunk_tokens,
                options.pinned ? ", pinned" : "", PrefillTableHead().c_str());
  }
  for (const PrefillPoint& point : options.points) {
    BATON_ASSIGN_OR_RETURN(const PrefillMeasurement measured, benchmark.Measure(point));
    const std::string text =
        json ? PrefillJsonLine(point, measured) : PrefillTableLine(point, measured);
    std::printf("%s\n", text.c_str());
    if (line.on("stages") && !json) std::printf("%s", PrefillStageLines(measured).c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

ExitCode RunBenchPrefill(const CommandLine& line) {
  std::unique_ptr<Checkpoint> checkpoint;
  if (line.given("model")) {
    auto opened = Checkpoint::Open(line.text("model"));
    if (!opened.ok()) return Complain(opened.status(), kExitUsage);
    checkpoint = *std::move(opened);
  }
  const auto options = ReadOptions(line, checkpoint.get());
  if (!options.ok()) return Complain(options.status(), kExitUsage);
  const auto benchmark = MakePrefillBenchmark(*options);
  if (!benchmark.ok()) return Complain(benchmark.status(), ExitCodeFor(benchmark.status()));
  const absl::Status status = Measure(line, *options, **benchmark);
  return status.ok() ? kExitOk : Complain(status, ExitCodeFor(status));
}

}  // namespace

Command BenchPrefillCommand() {
  CommandSpec spec{.name = "bench prefill", .summary = "measures prefill on this machine's GPU"};
  spec.flags = {{"model", "DIR", "",
                 "checkpoint to measure; default: random weights at North Mini Code's geometry"},
                {"layers", "N", "49", "without --model: how many of its 49 layers"},
                {"chunk-tokens", "N", "8192", "longest chunk"},
                {"repeats", "N", "3", "runs of each point; the table shows their median"},
                {"pinned", "", "false",
                 "results that do not depend on how a prompt is cut into chunks, bit for bit"},
                {"stages", "", "false", "device time by kind of work"},
                {"json", "", "false", "print JSON, one object a line"}};
  for (FlagSpec& flag : PrefillPointFlags()) spec.flags.push_back(std::move(flag));
  return {.spec = std::move(spec), .run = RunBenchPrefill};
}

}  // namespace baton
