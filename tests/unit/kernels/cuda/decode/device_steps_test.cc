#include "kernels/cuda/decode/device_steps.h"

#include <gtest/gtest.h>

namespace baton::cuda {
namespace {

// Steps since a Reset, around those where the device's count wraps.
constexpr uint64_t kSteps[] = {1,
                               2,
                               (uint64_t{1} << 30) + 1,
                               (uint64_t{1} << 32) - 1,
                               uint64_t{1} << 32,
                               (uint64_t{1} << 32) + 1,
                               (uint64_t{3} << 32) + 7};

TEST(DeviceSteps, AResultIsOfItsStepHoweverOftenTheCountWrapped) {
  for (const uint64_t step : kSteps) {
    for (const uint64_t state : {0, 1, 2, 3}) {
      const uint64_t tag = ResultTag(static_cast<uint32_t>(step), state);
      EXPECT_TRUE(IsResultOf(tag, step)) << step;
      EXPECT_EQ(StateOf(tag), state);
      for (const uint64_t other : {step - 1, step + 1, step + 4}) {
        EXPECT_FALSE(IsResultOf(tag, other)) << step << ", " << other;
      }
    }
  }
}

// An entry of the results' ring is used every four steps, and clear before.
TEST(DeviceSteps, AClearResultIsOfNoStepBeforeTheCountWraps) {
  for (const uint64_t step : {1, 2, 3, 4}) EXPECT_FALSE(IsResultOf(0, step));
}

TEST(DeviceSteps, AnErrorNamesTheStepThatRaisedItWhicheverIsAwaited) {
  for (const uint64_t step : kSteps) {
    const uint64_t raised = RaisedBy(static_cast<uint32_t>(step));
    EXPECT_NE(raised, 0u) << step;
    for (const uint64_t awaited : {step - 1, step, step + 1}) {
      EXPECT_EQ(RaisingStep(raised, awaited), step) << awaited;
    }
  }
}

}  // namespace
}  // namespace baton::cuda
