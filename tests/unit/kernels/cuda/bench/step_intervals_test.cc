#include "kernels/cuda/bench/step_intervals.h"

#include <gtest/gtest.h>

namespace baton::cuda {
namespace {

TEST(StepIntervalsTest, RatesAreOfAllTheTime) {
  // A host that looks every 8 us sees steps of 1.996 ms as 1.992 or 2.
  std::vector<double> ms(50, 1.992);
  ms.insert(ms.end(), 50, 2.0);
  DecodeMeasurement measurement;
  SetStepTimes(ms, 4, measurement);
  EXPECT_DOUBLE_EQ(measurement.step_ms_median, 2.0);
  EXPECT_NEAR(measurement.step_ms_mean, 1.996, 1e-9);
  EXPECT_NEAR(measurement.tokens_per_second, 4 / 1.996e-3, 1e-6);
}

TEST(StepIntervalsTest, ASlowStepCounts) {
  std::vector<double> ms(99, 1.0);
  ms.push_back(101.0);
  DecodeMeasurement measurement;
  SetStepTimes(ms, 1, measurement);
  EXPECT_DOUBLE_EQ(measurement.step_ms_p99, 101.0);
  EXPECT_DOUBLE_EQ(measurement.tokens_per_second, 500.0);
  EXPECT_DOUBLE_EQ(Quantile({}, 0.5), 0.0);
}

}  // namespace
}  // namespace baton::cuda
