#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/decode_benchmark_factory.h"
#include "kernels/models/checkpoint.h"
#include "kernels/models/north_geometry.h"
#include "services/client/bench_plan.h"
#include "services/client/bench_ratio.h"
#include "services/client/bench_table.h"
#include "services/client/commands.h"

namespace baton {
namespace {

absl::Status WriteTrace(const std::string& path, const std::string& json) {
  std::ofstream file(path);
  file << json;
  file.close();
  if (file.fail()) return absl::InvalidArgumentError(absl::StrCat("--trace: cannot write ", path));
  return absl::OkStatus();
}

using Measurements = std::vector<DecodeMeasurement>;

absl::StatusOr<Measurements> Measure(const CommandLine& line,
                                     const std::vector<DecodePoint>& points,
                                     DecodeBenchmark& benchmark, bool may_trace) {
  Measurements all;
  const double stream = benchmark.stream_bytes_per_second();
  const bool json = line.on("json");
  if (!json) {
    std::printf("%s on %s: weights %.2f GB, stream %.3f TB/s\n%s\n",
                line.text("model").empty() ? "random weights" : line.text("model").c_str(),
                benchmark.device().c_str(), benchmark.weight_bytes() * 1e-9, stream * 1e-12,
                BenchTableHead().c_str());
  }
  for (const DecodePoint& point : points) {
    const bool traced = may_trace && line.given("trace") && &point == &points.front();
    std::string trace;
    BATON_ASSIGN_OR_RETURN(const DecodeMeasurement measured,
                           benchmark.Measure(point, traced ? &trace : nullptr));
    if (traced) BATON_RETURN_IF_ERROR(WriteTrace(line.text("trace"), trace));
    const std::string text =
        json ? BenchJsonLine(point, measured, stream) : BenchTableLine(point, measured, stream);
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
    all.push_back(measured);
  }
  return all;
}

// The megakernel, and then the baseline if asked for; one at a time, as each takes most of the
// device's memory.
absl::Status MeasureBoth(const CommandLine& line, DecodeBenchmarkOptions options) {
  Measurements megakernel;
  {
    BATON_ASSIGN_OR_RETURN(const auto benchmark, MakeDecodeBenchmark(options));
    BATON_ASSIGN_OR_RETURN(megakernel, Measure(line, options.points, *benchmark, true));
  }
  if (!line.on("baseline")) return absl::OkStatus();
  options.baseline = true;
  options.trace = false;
  BATON_ASSIGN_OR_RETURN(const auto benchmark, MakeDecodeBenchmark(options));
  if (!line.on("json")) std::printf("\none kernel per operation in a CUDA graph:\n");
  BATON_ASSIGN_OR_RETURN(const Measurements baseline,
                         Measure(line, options.points, *benchmark, false));
  const bool same_weights = options.checkpoint != nullptr;
  for (size_t i = 0; i < options.points.size(); ++i) {
    const auto format = line.on("json") ? BenchRatioJson : BenchRatioLine;
    std::printf("%s\n",
                format(options.points[i], megakernel[i], baseline[i], same_weights).c_str());
  }
  return absl::OkStatus();
}

ExitCode RunBenchDecode(const CommandLine& line) {
  std::unique_ptr<Checkpoint> checkpoint;
  if (line.given("model")) {
    auto opened = Checkpoint::Open(line.text("model"));
    if (!opened.ok()) return Complain(opened.status(), kExitUsage);
    checkpoint = *std::move(opened);
  }
  const auto layers = line.integer("layers", 1, kNorthLayers);
  if (!layers.ok()) return Complain(layers.status(), kExitUsage);
  const auto points =
      BenchPoints(line, checkpoint == nullptr ? NorthMiniCodeGeometry() : checkpoint->config());
  if (!points.ok()) return Complain(points.status(), kExitUsage);
  const absl::Status status = MeasureBoth(line, {.trace = line.given("trace"),
                                                 .checkpoint = checkpoint.get(),
                                                 .layers = static_cast<int>(*layers),
                                                 .points = *points});
  return status.ok() ? kExitOk : Complain(status, ExitCodeFor(status));
}

}  // namespace

Command BenchDecodeCommand() {
  CommandSpec spec{.name = "bench decode",
                   .summary = "measures decode steps on this machine's GPU"};
  spec.flags = {{"model", "DIR", "",
                 "checkpoint to measure; default: random weights at North Mini Code's geometry"},
                {"layers", "N", "49", "without --model: how many of its 49 layers"},
                {"baseline", "", "false",
                 "then measure the step as one kernel per operation too, and print the ratio"},
                {"trace", "FILE", "",
                 "write the first point's last step as Perfetto JSON; needs a build with "
                 "BATON_DECODE_TRACE"},
                {"json", "", "false", "print JSON, one object a line"}};
  for (FlagSpec& flag : BenchPointFlags()) spec.flags.push_back(std::move(flag));
  return {.spec = std::move(spec), .run = RunBenchDecode};
}

}  // namespace baton
