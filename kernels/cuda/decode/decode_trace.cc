#include "kernels/cuda/decode/decode_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "kernels/task_graph/op_table.h"

namespace baton::cuda {
namespace {

// Tracks of a worker: its groups of warps that walk a list of tasks.
enum Track { kMmaTrack, kAttentionTrack, kEpilogueTrack, kTracks };
constexpr const char* kTrackNames[] = {"MMA warps", "attention warps", "epilogue warps"};

Track TrackOf(OpKind op) {
  if (op == OpKind::kAttention || op == OpKind::kAttentionMerge) return kAttentionTrack;
  return op == OpKind::kEmbed || op == OpKind::kSample ? kEpilogueTrack : kMmaTrack;
}

// One worker's events, task by task. On a track none begins before the last one ended: where one
// group's warps, or another group's work, are stamped at different tasks, the later one waits.
class WorkerEvents {
 public:
  WorkerEvents(int worker, uint64_t first_ns, std::string* json)
      : worker_(worker), first_ns_(first_ns), json_(json) {
    PutName("process_name", 0, absl::StrCat("worker ", worker));
    for (int track = 0; track < kTracks; ++track) PutName("thread_name", track, kTrackNames[track]);
  }

  void Add(absl::Span<const TraceEvent> task) {
    const Track track = TrackOf(static_cast<OpKind>(task[kTaskBegins].op));
    uint64_t at = task[kTaskBegins].time_ns;
    const auto until = [&](TracePhase phase, Track of, const char* what) {
      // Not of this task, or of an earlier step: this one did not come by.
      if (task[phase].time_ns < at) return;
      PutSpan(of, what, at, task[phase]);
      at = task[phase].time_ns;
    };
    until(kTaskWaited, track, "wait ");
    until(kTaskLoaded, track, "load ");
    until(kTaskDone, track, "");
    // The epilogue warps publish what the MMA warps multiply.
    until(kTaskPublished, track == kMmaTrack ? kEpilogueTrack : track, "publish ");
  }

 private:
  void Begin(const char* kind, int track, absl::string_view name) {
    // Neither number is 0, which is Perfetto's idle thread, and no two tracks have the same.
    absl::StrAppend(json_, json_->back() == '[' ? "" : ",\n", "{\"ph\":\"", kind,
                    "\",\"pid\":", worker_ + 1, ",\"tid\":", worker_ * kTracks + track + 1,
                    ",\"name\":\"", name, "\"");
  }
  void PutName(const char* what, int track, absl::string_view name) {
    Begin("M", track, what);
    absl::StrAppend(json_, ",\"args\":{\"name\":\"", name, "\"}}");
  }
  // From `begin_ns` until the event.
  void PutSpan(Track track, const char* what, uint64_t begin_ns, const TraceEvent& end) {
    begin_ns = std::max(begin_ns, ended_[track]);
    if (end.time_ns < begin_ns) return;
    ended_[track] = end.time_ns;
    Begin("X", track, absl::StrCat(what, OpName(static_cast<OpKind>(end.op))));
    absl::StrAppendFormat(json_, ",\"ts\":%s,\"dur\":%s,\"args\":{\"layer\":%d}}",
                          Microseconds(begin_ns - first_ns_), Microseconds(end.time_ns - begin_ns),
                          end.layer);
  }
  static std::string Microseconds(uint64_t ns) {
    return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000);
  }

  const int worker_;
  const uint64_t first_ns_;
  std::string* const json_;
  uint64_t ended_[kTracks] = {};
};

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
  for (int worker = 0; worker < worker_count && first != ~uint64_t{0}; ++worker) {
    WorkerEvents added(worker, first, &json);
    const auto own = events.subspan(worker * capacity, capacity);
    for (size_t i = 0; i + kTracePhases <= capacity; i += kTracePhases) {
      if (own[i].time_ns != 0) added.Add(own.subspan(i, kTracePhases));
    }
  }
  return json + "]}";
}

}  // namespace baton::cuda
