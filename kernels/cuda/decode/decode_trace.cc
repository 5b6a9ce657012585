#include "kernels/cuda/decode/decode_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/task_graph/op_table.h"

namespace baton::cuda {
namespace {

constexpr size_t kEventsPerTask = 3;

}  // namespace

absl::Status CheckTraceBuilt(bool wanted) {
  if (!wanted || kTraced) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a trace was wanted, and this build keeps none: configure it with -DBATON_DECODE_TRACE=ON");
}

std::string DecodeTraceJson(absl::Span<const TraceEvent> events, int worker_count) {
  const size_t capacity = events.size() / worker_count;
  uint64_t first = ~uint64_t{0};
  for (const TraceEvent& event : events) {
    if (event.time_ns != 0) first = std::min(first, event.time_ns);
  }
  std::string json = "{\"traceEvents\":[";
  const char* separator = "";
  for (int worker = 0; worker < worker_count; ++worker) {
    const auto own = events.subspan(worker * capacity, capacity);
    for (size_t i = 0; i + kEventsPerTask <= capacity; i += kEventsPerTask) {
      if (own[i].time_ns == 0 || own[i + 2].time_ns == 0) continue;
      const char* const name = OpName(static_cast<OpKind>(own[i].op));
      for (int part = 0; part < 2; ++part) {
        const TraceEvent& begin = own[i + part];
        absl::StrAppend(&json, separator, "{\"ph\":\"X\",\"pid\":", worker, ",\"tid\":", part,
                        ",\"name\":\"", part == 0 ? "wait " : "", name,
                        "\",\"ts\":", (begin.time_ns - first) * 1e-3,
                        ",\"dur\":", (own[i + part + 1].time_ns - begin.time_ns) * 1e-3,
                        ",\"args\":{\"layer\":", own[i].layer, "}}");
        separator = ",\n";
      }
    }
  }
  return json + "]}";
}

}  // namespace baton::cuda
