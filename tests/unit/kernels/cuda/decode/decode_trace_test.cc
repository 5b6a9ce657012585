#include "kernels/cuda/decode/decode_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/task_graph/op_table.h"

namespace baton::cuda {
namespace {

TEST(DecodeTraceTest, SaysWhenATaskWaitedAndWorked) {
  const auto op = static_cast<uint8_t>(OpKind::kDown);
  // Worker 0 ran one of its two tasks, worker 1 one.
  std::vector<TraceEvent> events(12);
  events[0] = {.time_ns = 5000, .op = op, .layer = 3};
  events[1] = {.time_ns = 7000, .op = op, .layer = 3};
  events[2] = {.time_ns = 8500, .op = op, .layer = 3};
  events[6] = {.time_ns = 4000, .op = op};
  events[7] = {.time_ns = 4000, .op = op};
  events[8] = {.time_ns = 4500, .op = op};
  const auto json = nlohmann::json::parse(DecodeTraceJson(events, 2));
  const auto& spans = json["traceEvents"];
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0]["name"], std::string("wait ") + OpName(OpKind::kDown));
  EXPECT_EQ(spans[0]["ts"], 1.0);  // Since the first event of all, worker 1's.
  EXPECT_EQ(spans[0]["dur"], 2.0);
  EXPECT_EQ(spans[0]["args"]["layer"], 3);
  EXPECT_EQ(spans[1]["name"], OpName(OpKind::kDown));
  EXPECT_EQ(spans[1]["dur"], 1.5);
  EXPECT_EQ(spans[2]["pid"], 1);
  EXPECT_EQ(spans[2]["ts"], 0.0);
}

TEST(DecodeTraceTest, IsRefusedByABuildThatKeepsNone) {
  EXPECT_TRUE(CheckTraceBuilt(false).ok());
  EXPECT_EQ(CheckTraceBuilt(true).code(),
            kTraced ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition);
}

TEST(DecodeTraceTest, IsEmptyWithoutEvents) {
  const auto json = nlohmann::json::parse(DecodeTraceJson(std::vector<TraceEvent>(6), 2));
  EXPECT_TRUE(json["traceEvents"].empty());
}

}  // namespace
}  // namespace baton::cuda
