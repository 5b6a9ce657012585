#include "kernels/cuda/bench/step_intervals.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"

namespace baton::cuda {

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * values.size()))];
}

void SetStepTimes(const std::vector<double>& ms, size_t rows, DecodeMeasurement& measurement) {
  BATON_CHECK(!ms.empty());
  measurement.step_ms_mean = std::accumulate(ms.begin(), ms.end(), 0.0) / ms.size();
  measurement.step_ms_median = Quantile(ms, 0.5);
  measurement.step_ms_p99 = Quantile(ms, 0.99);
  measurement.tokens_per_second = rows / (measurement.step_ms_mean * 1e-3);
}

}  // namespace baton::cuda
