#include "kernels/cuda/decode/decode_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/task_graph/op_table.h"

namespace baton::cuda {
namespace {

// Tracks of a worker: its groups of warps that walk a list of tasks.
enum Track { kMmaTrack, kAttentionTrack, kEpilogueTrack, kTracks };

Track TrackOf(OpKind op) {
  if (op == OpKind::kAttention || op == OpKind::kAttentionMerge) return kAttentionTrack;
  return op == OpKind::kEmbed || op == OpKind::kSample ? kEpilogueTrack : kMmaTrack;
}

// One worker's spans, task by task.
class WorkerSpans {
 public:
  WorkerSpans(int worker, uint64_t first_ns, std::string* json)
      : worker_(worker), first_ns_(first_ns), json_(json) {}

  void Add(absl::Span<const TraceEvent> task) {
    const Track track = TrackOf(static_cast<OpKind>(task[kTaskBegins].op));
    uint64_t at = task[kTaskBegins].time_ns;
    const auto until = [&](TracePhase phase, const char* what) {
      // Not of this task, or of an earlier step: this one did not come by.
      if (task[phase].time_ns < at) return;
      Put(track, what, at, task[phase]);
      at = task[phase].time_ns;
    };
    until(kTaskWaited, "wait ");
    until(kTaskLoaded, "load ");
    until(kTaskDone, "");
    const TraceEvent& published = task[kTaskPublished];
    if (published.time_ns < at) return;
    // The epilogue warps publish what the MMA warps multiply, one task after the other.
    const Track publisher = track == kMmaTrack ? kEpilogueTrack : track;
    Put(publisher, "publish ", std::max(at, published_[publisher]), published);
    published_[publisher] = published.time_ns;
  }

 private:
  // From `begin_ns` until the event.
  void Put(Track track, const char* what, uint64_t begin_ns, const TraceEvent& end) {
    absl::StrAppend(
        json_, json_->back() == '[' ? "" : ",\n", "{\"ph\":\"X\",\"pid\":", worker_,
        ",\"tid\":", static_cast<int>(track), ",\"name\":\"", what,
        OpName(static_cast<OpKind>(end.op)), "\",\"ts\":", (begin_ns - first_ns_) * 1e-3,
        ",\"dur\":", (end.time_ns - begin_ns) * 1e-3, ",\"args\":{\"layer\":", end.layer, "}}");
  }

  const int worker_;
  const uint64_t first_ns_;
  std::string* const json_;
  uint64_t published_[kTracks] = {};
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
  for (int worker = 0; worker < worker_count; ++worker) {
    WorkerSpans spans(worker, first, &json);
    const auto own = events.subspan(worker * capacity, capacity);
    for (size_t i = 0; i + kTracePhases <= capacity; i += kTracePhases) {
      if (own[i].time_ns != 0) spans.Add(own.subspan(i, kTracePhases));
    }
  }
  return json + "]}";
}

}  // namespace baton::cuda
