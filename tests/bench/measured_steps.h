// Decode steps that were measured: on an H200, random weights at North Mini Code's geometry, as in
// tests/bench/RESULTS.md (those of 24 and 32 rows on a slower card than the others). What the
// simulator of steps was fitted to.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/models/distinct_experts.h"
#include "kernels/models/north_geometry.h"
#include "kernels/task_graph/ring_schedule.h"

namespace baton {

struct MeasuredStep {
  int batch;
  int context;
  int pool;  // Experts that routing draws from.
  double ms;

  StepLoad load() const {
    const int chosen = NorthMiniCodeGeometry(1).experts_per_token;
    return {.contexts = std::vector<int>(batch, context),
            .active_experts =
                static_cast<int>(std::lround(ExpectedDistinctExperts(batch, chosen, pool)))};
  }
  RingShape ring() const { return RingShape::For(batch, context); }
};

inline constexpr MeasuredStep kMeasuredSteps[] = {
    {1, 8192, 128, 1.901},   {2, 8192, 128, 2.892},   {4, 8192, 128, 4.473},
    {8, 8192, 27, 4.719},    {8, 8192, 128, 7.242},   {16, 8192, 128, 11.845},
    {24, 8192, 128, 16.350}, {32, 8192, 128, 19.308}, {1, 131072, 128, 2.679}};

}  // namespace baton
