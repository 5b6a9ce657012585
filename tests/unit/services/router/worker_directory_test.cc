#include "services/router/worker_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class WorkerDirectoryTest : public testing::Test {
 protected:
  WorkerDirectoryTest() {
    directory_.AddWorker("d", WorkerRole::kDecode);
    directory_.AddWorker("p", WorkerRole::kPrefill);
  }
  WorkerView View(const std::string& address, WorkerDirectory::TimePoint now) {
    for (const WorkerView& view : directory_.Snapshot(now)) {
      if (view.address == address) return view;
    }
    return {};
  }
  static WorkerReport Ready() { return {.role = WorkerRole::kDecode, .ready = true}; }

  WorkerDirectory directory_{milliseconds(1000)};
  const WorkerDirectory::TimePoint start_{milliseconds(5000)};
};

TEST_F(WorkerDirectoryTest, AWorkerConnectsThenIsReady) {
  EXPECT_EQ(View("d", start_).state, WorkerState::kConnecting);
  directory_.OnReport("d", Ready(), start_);
  EXPECT_EQ(View("d", start_).state, WorkerState::kReady);
}

TEST_F(WorkerDirectoryTest, ASilentWorkerIsDownUntilItSpeaks) {
  directory_.OnReport("d", Ready(), start_);
  EXPECT_EQ(View("d", start_ + milliseconds(1000)).state, WorkerState::kReady);
  const WorkerView silent = View("d", start_ + milliseconds(1001));
  EXPECT_EQ(silent.state, WorkerState::kDown);
  EXPECT_THAT(silent.reason, HasSubstr("1000 ms"));
  EXPECT_TRUE(directory_.IsSilent("d", start_ + milliseconds(1001)));
  directory_.OnReport("d", Ready(), start_ + milliseconds(1500));
  EXPECT_EQ(View("d", start_ + milliseconds(1500)).state, WorkerState::kReady);
}

TEST_F(WorkerDirectoryTest, ALostWorkerIsDownAtOnce) {
  WorkerReport report = Ready();
  report.running = 3;
  directory_.OnReport("d", report, start_);
  directory_.OnLost("d", "connection reset");
  EXPECT_EQ(View("d", start_).state, WorkerState::kDown);
  EXPECT_EQ(View("d", start_).reason, "connection reset");
  EXPECT_EQ(View("d", start_).report.running, 0u);
  EXPECT_FALSE(directory_.IsSilent("d", start_ + milliseconds(9999)));
}

TEST_F(WorkerDirectoryTest, DrainingAndUnreadyWorkersSaySo) {
  WorkerReport report = Ready();
  report.draining = true;
  directory_.OnReport("d", report, start_);
  EXPECT_EQ(View("d", start_).state, WorkerState::kDraining);
  report = {.role = WorkerRole::kDecode, .reason = "the device is lost"};
  directory_.OnReport("d", report, start_);
  EXPECT_EQ(View("d", start_).state, WorkerState::kDown);
  EXPECT_EQ(View("d", start_).reason, "the device is lost");
}

TEST_F(WorkerDirectoryTest, AWorkerOfTheWrongRoleIsNotUsed) {
  directory_.OnReport("p", Ready(), start_);
  EXPECT_EQ(View("p", start_).state, WorkerState::kDown);
  EXPECT_THAT(View("p", start_).reason, HasSubstr("wanted a prefill worker, found a decode"));
}

TEST_F(WorkerDirectoryTest, CountsRequestsInFlight) {
  const Route route{.decode = "d", .prefill = {"p"}};
  directory_.Begin(route, 100);
  directory_.Begin(route, 50);
  EXPECT_EQ(View("d", start_).in_flight, 2u);
  EXPECT_EQ(View("p", start_).in_flight_prompt_tokens, 150u);
  directory_.EndPrefill(route, 100);
  EXPECT_EQ(View("p", start_).in_flight_prompt_tokens, 50u);
  EXPECT_EQ(View("p", start_).in_flight, 1u);
  directory_.EndPrefill(route, 50);
  directory_.End(route);
  directory_.End(route);
  EXPECT_EQ(View("d", start_).in_flight, 0u);
}

TEST_F(WorkerDirectoryTest, ARouteWithoutPrefillBurdensDecodeAlone) {
  directory_.OnReport("d", Ready(), start_);
  const Route route{.decode = "d"};
  directory_.Begin(route, 100);
  EXPECT_EQ(View("d", start_).in_flight, 1u);
  EXPECT_EQ(View("p", start_).in_flight, 0u);
  directory_.EndPrefill(route, 100);
  directory_.End(route);
  EXPECT_EQ(View("d", start_).in_flight, 0u);
}

}  // namespace
}  // namespace baton
