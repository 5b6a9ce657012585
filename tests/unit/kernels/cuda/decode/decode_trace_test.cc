#include "kernels/cuda/decode/decode_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/task_graph/op_table.h"

namespace baton::cuda {
namespace {

// Sets the times of a task's phases, kTaskBegins first; 0: none.
void SetTask(absl::Span<TraceEvent> task, OpKind op, uint32_t layer,
             const std::vector<uint64_t>& times) {
  for (size_t i = 0; i < times.size(); ++i)
    task[i] = {.time_ns = times[i], .op = static_cast<uint32_t>(op), .layer = layer};
}

struct Span {
  std::string name;
  int worker, track;
  double begin, duration;  // us.
  bool operator==(const Span&) const = default;
};
void PrintTo(const Span& span, std::ostream* out) {
  *out << span.name << " of worker " << span.worker << ", track " << span.track << ": "
       << span.begin << " + " << span.duration;
}
std::vector<Span> SpansOf(absl::Span<const TraceEvent> events, int workers) {
  std::vector<Span> spans;
  const auto json = nlohmann::json::parse(DecodeTraceJson(events, workers));
  for (const auto& span : json["traceEvents"]) {
    if (span["ph"] != "X") continue;
    const int worker = span["pid"].get<int>() - 1, track = span["tid"].get<int>() - 1 - 3 * worker;
    spans.push_back({span["name"], worker, track, span["ts"], span["dur"]});
  }
  return spans;
}

TEST(DecodeTraceTest, SaysWhenATaskWaitedLoadedWorkedAndWasPublished) {
  // Worker 0 ran one of its two tasks, worker 1 one, which came by two phases.
  std::vector<TraceEvent> events(4 * kTracePhases);
  const absl::Span<TraceEvent> all = absl::MakeSpan(events);
  SetTask(all, OpKind::kDown, 3, {5000, 7000, 7500, 8500, 9000});
  SetTask(all.subspan(2 * kTracePhases), OpKind::kAttentionMerge, 0, {4000, 0, 0, 4500, 0});
  EXPECT_THAT(SpansOf(events, 2),
              testing::ElementsAre(Span{"wait Down", 0, 0, 1.0, 2.0},  // Since the first of all.
                                   Span{"load Down", 0, 0, 3.0, 0.5}, Span{"Down", 0, 0, 3.5, 1.0},
                                   Span{"publish Down", 0, 2, 4.5, 0.5},
                                   Span{"AttentionMerge", 1, 1, 0.0, 0.5}));
}

TEST(DecodeTraceTest, NamesTheWorkersTheirTracksAndTheLayers) {
  std::vector<TraceEvent> events(2 * kTracePhases);
  SetTask(absl::MakeSpan(events).subspan(kTracePhases), OpKind::kDown, 3, {5000, 7000});
  std::vector<std::string> names;
  const auto json = nlohmann::json::parse(DecodeTraceJson(events, 2));
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X") {
      EXPECT_EQ(event["args"]["layer"], 3);
    }
    if (event["ph"] == "M" && event["pid"] == 2) names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names,
              testing::ElementsAre("worker 1", "MMA warps", "attention warps", "epilogue warps"));
}

// Perfetto drops spans that cross on a track.
TEST(DecodeTraceTest, HasTimesToTheNanosecondLateInALongStep) {
  std::vector<TraceEvent> events(2 * kTracePhases);
  const absl::Span<TraceEvent> all = absl::MakeSpan(events);
  SetTask(all, OpKind::kEmbed, 0, {1000, 0, 0, 2000});
  SetTask(all.subspan(kTracePhases), OpKind::kDown, 1, {123'457'789, 0, 0, 123'458'792});
  EXPECT_THAT(DecodeTraceJson(events, 1), testing::HasSubstr("\"ts\":123456.789,\"dur\":1.003,"));
}

TEST(DecodeTraceTest, BeginsNoTaskOfATrackBeforeTheLastOneEnded) {
  // Attention's time is the first pair's; the second one was at the merge before.
  std::vector<TraceEvent> events(3 * kTracePhases);
  const absl::Span<TraceEvent> all = absl::MakeSpan(events);
  SetTask(all, OpKind::kAttention, 0, {1000, 2000, 3000, 8000, 9000});
  SetTask(all.subspan(kTracePhases), OpKind::kAttentionMerge, 0, {4000, 9500, 0, 9700, 9800});
  SetTask(all.subspan(2 * kTracePhases), OpKind::kAttention, 1, {9600, 9700, 0, 9750, 9900});
  EXPECT_THAT(
      SpansOf(events, 1),
      testing::ElementsAre(
          Span{"wait Attention", 0, 1, 0.0, 1.0}, Span{"load Attention", 0, 1, 1.0, 1.0},
          Span{"Attention", 0, 1, 2.0, 5.0}, Span{"publish Attention", 0, 1, 7.0, 1.0},
          Span{"wait AttentionMerge", 0, 1, 8.0, 0.5}, Span{"AttentionMerge", 0, 1, 8.5, 0.2},
          Span{"publish AttentionMerge", 0, 1, 8.7, 0.1},
          Span{"publish Attention", 0, 1, 8.8, 0.1}));
}

TEST(DecodeTraceTest, LeavesOutWhatAnEarlierStepCameBy) {
  std::vector<TraceEvent> events(kTracePhases);
  SetTask(absl::MakeSpan(events), OpKind::kGateUp, 1, {5000, 6000, 2000, 7000, 3000});
  EXPECT_THAT(SpansOf(events, 1), testing::ElementsAre(Span{"wait GateUp", 0, 0, 3.0, 1.0},
                                                       Span{"GateUp", 0, 0, 4.0, 1.0}));
}

TEST(DecodeTraceTest, PublishesOneTaskAfterTheOther) {
  // The MMA warps were through with the second before the first was published.
  std::vector<TraceEvent> events(2 * kTracePhases);
  const absl::Span<TraceEvent> all = absl::MakeSpan(events);
  SetTask(all, OpKind::kRouter, 1, {1000, 2000, 0, 3000, 6000});
  SetTask(all.subspan(kTracePhases), OpKind::kQkvRope, 1, {3000, 0, 0, 5000, 7000});
  EXPECT_THAT(SpansOf(events, 1), testing::IsSupersetOf({Span{"publish Router", 0, 2, 2.0, 3.0},
                                                         Span{"publish QkvRope", 0, 2, 5.0, 1.0}}));
}

TEST(DecodeTraceTest, IsRefusedByABuildThatKeepsNone) {
  EXPECT_TRUE(CheckTraceBuilt(false).ok());
  EXPECT_EQ(CheckTraceBuilt(true).code(),
            kTraced ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
}

TEST(DecodeTraceTest, IsEmptyWithoutEvents) {
  const auto json =
      nlohmann::json::parse(DecodeTraceJson(std::vector<TraceEvent>(2 * kTracePhases), 2));
  EXPECT_TRUE(json["traceEvents"].empty());
}

}  // namespace
}  // namespace baton::cuda
