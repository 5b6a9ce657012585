#include "services/router/router_core.h"

#include <gtest/gtest.h>

#include <future>

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
