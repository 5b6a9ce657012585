// How many experts uniform routing gives work to. Pure.
#pragma once

#include <cmath>

namespace baton {

// Of `pool` experts, the number that at least one of `tokens` tokens chooses, on average, when each
// draws `chosen` different ones.
inline double ExpectedDistinctExperts(double tokens, int chosen, int pool) {
  if (pool <= 0) return 0;
  return pool * (1.0 - std::pow(1.0 - static_cast<double>(chosen) / pool, tokens));
}

}  // namespace baton
