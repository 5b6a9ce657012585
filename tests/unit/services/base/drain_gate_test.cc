#include "services/base/drain_gate.h"

#include <gtest/gtest.h>

#include <thread>

namespace baton {
namespace {

TEST(DrainGateTest, RefusesWhileDraining) {
  DrainGate gate;
  ASSERT_TRUE(gate.Enter().ok());
  gate.BeginDrain();
  EXPECT_TRUE(absl::IsUnavailable(gate.Enter()));
  EXPECT_EQ(gate.in_flight_count(), 1u);
  EXPECT_FALSE(gate.WaitEmpty(std::chrono::milliseconds(0)));
  std::thread leaver([&] { gate.Leave(); });
  EXPECT_TRUE(gate.WaitEmpty(std::chrono::seconds(20)));
  leaver.join();
}

}  // namespace
}  // namespace baton
