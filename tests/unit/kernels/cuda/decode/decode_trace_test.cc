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
  for (const auto& span : json["traceEvents"])
    spans.push_back({span["name"], span["pid"], span["tid"], span["ts"], span["dur"]});
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
  const auto json = nlohmann::json::parse(DecodeTraceJson(events, 2));
  EXPECT_EQ(json["traceEvents"][0]["args"]["layer"], 3);
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
