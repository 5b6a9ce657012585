#include "services/router/routing_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

WorkerView Worker(const std::string& address, WorkerRole role) {
  return {.address = address,
          .role = role,
          .state = WorkerState::kReady,
          .report = {.role = role,
                     .model_fingerprint = 1,
                     .max_rows = 4,
                     .max_waiting = 4,
                     .max_context_tokens = 1000}};
}
WorkerView Decode(const std::string& address) { return Worker(address, WorkerRole::kDecode); }
WorkerView Prefill(const std::string& address) { return Worker(address, WorkerRole::kPrefill); }

absl::StatusOr<Route> Choose(const std::vector<WorkerView>& workers, RouteRequest request = {}) {
  std::mt19937_64 random(1);
  return ChooseRoute(workers, request, random);
}

TEST(ChooseRouteTest, TakesTheLeastLoadedDecodeWorker) {
  std::vector<WorkerView> workers = {Decode("d1"), Decode("d2"), Prefill("p")};
  workers[0].report.running = 2;
  workers[1].report.running = 1;
  EXPECT_EQ(Choose(workers)->decode, "d2");
  workers[1].in_flight = 3;  // Sent just now, not reported yet.
  EXPECT_EQ(Choose(workers)->decode, "d1");
  workers[0].report.max_rows = 32;  // Load is a share of the rows.
  workers[0].report.running = 10;
  EXPECT_EQ(Choose(workers)->decode, "d1");
}

TEST(ChooseRouteTest, OrdersPrefillWorkersByQueuedTokens) {
  std::vector<WorkerView> workers = {Decode("d"), Prefill("p1"), Prefill("p2"), Prefill("p3")};
  workers[1].report.queued_prompt_tokens = 500;
  workers[2].in_flight_prompt_tokens = 100;
  EXPECT_THAT(Choose(workers)->prefill, ElementsAre("p3", "p2", "p1"));
}

TEST(ChooseRouteTest, ADecodeWorkerThatPrefillsItselfNeedsNoOther) {
  std::vector<WorkerView> workers = {Decode("d")};
  EXPECT_EQ(LongestContext(workers), 0u);
  workers[0].report.prefills_itself = true;
  EXPECT_EQ(LongestContext(workers), 1000u);
  workers.push_back(Prefill("p"));
  const auto route = Choose(workers);
  ASSERT_TRUE(route.ok()) << route.status();
  EXPECT_EQ(route->decode, "d");
  EXPECT_TRUE(route->prefill.empty());
}

TEST(ChooseRouteTest, PairsOnlyEqualModels) {
  std::vector<WorkerView> workers = {Decode("d1"), Decode("d2"), Prefill("p1"), Prefill("p2")};
  workers[0].report.model_fingerprint = 7;
  workers[2].report.model_fingerprint = 8;
  const auto route = Choose(workers);
  EXPECT_EQ(route->decode, "d2");
  EXPECT_THAT(route->prefill, ElementsAre("p2"));
}

TEST(ChooseRouteTest, LeavesOutWorkersThatAreNotReadyOrWereTried) {
  for (WorkerState state : {WorkerState::kConnecting, WorkerState::kDraining, WorkerState::kDown}) {
    std::vector<WorkerView> workers = {Decode("d1"), Decode("d2"), Prefill("p1"), Prefill("p2")};
    workers[0].state = state;
    workers[3].state = state;
    const auto route = Choose(workers);
    EXPECT_EQ(route->decode, "d2");
    EXPECT_THAT(route->prefill, ElementsAre("p1"));
    EXPECT_TRUE(absl::IsUnavailable(Choose(workers, {.excluded = {"d2"}}).status()));
  }
}

TEST(ChooseRouteTest, WithoutAPairItIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(Choose({}).status()));
  EXPECT_TRUE(absl::IsUnavailable(Choose({Decode("d")}).status()));
  EXPECT_TRUE(absl::IsUnavailable(Choose({Prefill("p")}).status()));
}

TEST(ChooseRouteTest, FullQueuesAreResourceExhausted) {
  std::vector<WorkerView> workers = {Decode("d"), Prefill("p")};
  workers[0].report.running = 4;
  workers[0].report.waiting = 3;
  EXPECT_TRUE(Choose(workers).ok());
  workers[0].report.waiting = 4;
  EXPECT_TRUE(absl::IsResourceExhausted(Choose(workers).status()));
}

TEST(ChooseRouteTest, TooLongRequestsAreInvalidWithTheNumbers) {
  std::vector<WorkerView> workers = {Decode("d1"), Decode("d2"), Prefill("p")};
  workers[1].report.max_context_tokens = 2000;
  workers[1].report.running = 3;
  EXPECT_EQ(Choose(workers, {.prompt_tokens = 1500, .max_tokens = 500})->decode, "d2");
  const auto status = Choose(workers, {.prompt_tokens = 1500, .max_tokens = 501}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("at most 2000 tokens, found 1500 + 501"));
}

TEST(ChooseRouteTest, EqualsAreDrawnEvenly) {
  const std::vector<WorkerView> workers = {Decode("d1"), Decode("d2"), Prefill("p1"),
                                           Prefill("p2")};
  std::mt19937_64 random(1);
  std::map<std::string, int> count;
  for (int i = 0; i < 1000; ++i) {
    const auto route = ChooseRoute(workers, {}, random);
    ++count[route->decode];
    ++count[route->prefill.front()];
    EXPECT_THAT(route->prefill, UnorderedElementsAre("p1", "p2"));
  }
  for (const char* address : {"d1", "d2", "p1", "p2"}) {
    EXPECT_GT(count[address], 400) << address;
  }
}

TEST(LongestContextTest, CountsReadyPairsOnly) {
  std::vector<WorkerView> workers = {Decode("d1"), Decode("d2"), Prefill("p")};
  workers[1].report.max_context_tokens = 3000;
  EXPECT_EQ(LongestContext(workers), 3000u);
  workers[1].state = WorkerState::kDown;
  EXPECT_EQ(LongestContext(workers), 1000u);
  workers[2].state = WorkerState::kDown;
  EXPECT_EQ(LongestContext(workers), 0u);
}

}  // namespace
}  // namespace baton
