// Measures the decode kernel at North Mini Code's geometry on synthetic weights, beside the stream
// bandwidth of the same run, and prints one table.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/cuda/bench/decode_bench.h"
#include "kernels/cuda/bench/north_geometry.h"
#include "kernels/cuda/bench/stream_bench.h"

namespace baton::cuda {
namespace {

struct Case {
  const char* name;
  DecodePoint point;
  DecodeTuning tuning;
};

std::vector<Case> Cases(bool sweep) {
  std::vector<Case> cases = {
      {"b1 8K", {.batch = 1}, {}},
      {"b8 8K uniform", {.batch = 8}, {}},
      {"b8 8K 25 distinct", {.batch = 8, .forced_experts = 27}, {}},
      {"b32 8K uniform", {.batch = 32, .steps = 32}, {}},
      {"b1 128K", {.batch = 1, .context = 131072}, {}},
      {"b16 8K uniform", {.batch = 16, .steps = 32}, {}},
      {"b4 8K uniform", {.batch = 4}, {}},
  };
  if (sweep) {
    for (int flight : {49152, 65536}) {
      cases.push_back({"b1 sweep", {.batch = 1}, {.in_flight_bytes = flight}});
      cases.push_back({"b8 sweep", {.batch = 8, .steps = 32}, {.in_flight_bytes = flight}});
    }
  }
  return cases;
}

// `stream_rate`: of the same run, bytes per second.
void PrintRow(const Case& c, const DecodeMeasurement& m, double stream_rate) {
  const double rate = m.bytes() / (m.step_ms_median * 1e-3);
  std::printf(
      "%-20s %5d %5d %9.4f %9.4f %9.4f %9.1f %8.2f %8.1f %7.1f %7.1f | %.3f %.3f %.3f %.3f | "
      "%.3f | %016llx\n",
      c.name, c.tuning.slot_bytes / 1024, c.tuning.in_flight_bytes / 1024, m.step_ms_median,
      m.step_ms_p99, m.device_ms_median, m.tokens_per_second, m.bytes() * 1e-9, m.distinct_experts,
      rate / 4.8e12 * 100, rate / stream_rate * 100, m.wait_memory, m.wait_routing, m.wait_join,
      m.wait_other, m.first_after_idle_ms, static_cast<unsigned long long>(m.digest));
}

int Run(bool sweep, const char* trace_path) {
  const auto stream = MeasureStreamBandwidth(16ull << 30, 5, 3);
  const auto stream4 = MeasureStreamBandwidth(16ull << 30, 5, 4);
  if (!stream.ok()) {
    std::fprintf(stderr, "stream: %s\n", stream.status().ToString().c_str());
    return 1;
  }
  std::printf("stream 48 KiB in flight %.3f TB/s, 64 KiB %.3f TB/s\n", *stream * 1e-12,
              *stream4 * 1e-12);
  auto bench = DecodeBench::Create(NorthMiniCodeGeometry(), nullptr, 0, 24ull << 30);
  if (!bench.ok()) {
    std::fprintf(stderr, "create: %s\n", bench.status().ToString().c_str());
    return 1;
  }
  std::printf(
      "%-20s %5s %5s %9s %9s %9s %9s %8s %8s %7s %7s | waits: mem route join other | idle ms | "
      "digest\n",
      "case", "slot", "fly", "ms", "p99", "dev ms", "tok/s", "GB", "distinct", "%4.8", "%stream");
  const std::vector<Case> cases = Cases(sweep);
  int failures = 0;
  for (const Case& c : cases) {
    std::string trace;
    auto m = (*bench)->Measure(c.point, c.tuning,
                               trace_path != nullptr && &c == &cases[0] ? &trace : nullptr);
    if (!m.ok()) {
      std::printf("%-20s %s\n", c.name, m.status().ToString().c_str());
      ++failures;
      continue;
    }
    if (!trace.empty()) std::ofstream(trace_path) << trace;
    PrintRow(c, *m, *stream);
    std::fflush(stdout);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace baton::cuda

int main(int argc, char** argv) {
  const bool sweep = argc > 1 && std::strcmp(argv[1], "--sweep") == 0;
  return baton::cuda::Run(sweep, argc > 2 ? argv[2] : nullptr);
}
