// What the intervals between a benchmark's steps say. Pure; the megakernel and the baseline share
// it.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/decode_benchmark.h"

namespace baton::cuda {

// The value that a share `q` of `values` is below; 0 of none.
double Quantile(std::vector<double> values, double q);

// Sets mean, median and 99th percentile of a step, and the tokens a second of `rows` rows: all over
// all the time, not of the median. `ms`: milliseconds of each step, at least one.
void SetStepTimes(const std::vector<double>& ms, size_t rows, DecodeMeasurement& measurement);

}  // namespace baton::cuda
