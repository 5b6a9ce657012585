#include "services/router/router_core.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/fakes/fake_decode_worker.h"

namespace baton {
namespace {

TEST(RouterCoreTest, RefusesBeyondMaxInFlightAndWhileDraining) {
  FakeCluster cluster;  // max_in_flight 8
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(cluster.core->Enter().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(cluster.core->Enter()));
  cluster.core->gate().Leave();
  EXPECT_TRUE(cluster.core->Enter().ok());
  cluster.core->gate().BeginDrain();
  EXPECT_TRUE(absl::IsUnavailable(cluster.core->Enter()));
}

// Eight places, seven taken: of two that come at once one gets the last.
TEST(RouterCoreTest, TheLastPlaceGoesToOneOfThoseThatComeAtOnce) {
  FakeCluster cluster;  // max_in_flight 8
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(cluster.core->Enter().ok());
  int nobody = 0;
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int> arrived{0};
    std::atomic<int> entered{0};
    const auto enter = [&] {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      if (cluster.core->Enter().ok()) ++entered;
    };
    std::thread other(enter);
    enter();
    other.join();
    nobody += entered == 0 ? 1 : 0;
    for (int i = 0; i < entered; ++i) cluster.core->gate().Leave();
  }
  EXPECT_EQ(nobody, 0);
}

TEST(RouterCoreTest, LimitsAreWhatTheWorkersHold) {
  FakeCluster cluster;
  EXPECT_EQ(cluster.core->Limits().context_tokens, 1000u);
  cluster.directory.OnLost("prefill:1", "gone");
  EXPECT_EQ(cluster.core->Limits().context_tokens, 0u);
}

TEST(RouterCoreTest, ChoosesAndDrawsReproducibly) {
  FakeCluster first;
  FakeCluster second;
  EXPECT_EQ(first.core->DrawNumber(), second.core->DrawNumber());
  EXPECT_TRUE(first.core->Choose({.prompt_tokens = 1, .max_tokens = 1}).ok());
}

TEST(RouterCoreTest, TextWorkRunsElsewhere) {
  FakeCluster cluster;
  std::promise<std::thread::id> thread;
  cluster.core->PostTextWork([&] { thread.set_value(std::this_thread::get_id()); });
  EXPECT_NE(thread.get_future().get(), std::this_thread::get_id());
}

}  // namespace
}  // namespace baton
