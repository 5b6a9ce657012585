// LoadPlan: the requests of a load before any is sent: when each starts and how long it is. Pure;
// equal options give equal plans.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "common/generation.h"
#include "services/client/length_distribution.h"

namespace baton {

struct PlannedRequest {
  double start_s = 0;  // After the load's begin; 0 throughout in a closed loop.
  uint32_t prompt_tokens = 1;
  uint32_t output_tokens = 1;
  uint64_t prompt_seed = 0;
};

struct LoadPlanOptions {
  uint32_t request_count = 1;
  // Requests a second, as a Poisson process (open loop). 0: none waits for a time of its own
  // (closed loop: the next one starts when one has ended).
  double rate = 0;
  LengthDistribution prompt;
  LengthDistribution output;
  uint64_t seed = 1;
};

std::vector<PlannedRequest> PlanLoad(const LoadPlanOptions& options);

// Random ids below `vocab_size`; equal seeds give equal prompts.
std::vector<TokenId> MakePrompt(const PlannedRequest& request, uint32_t vocab_size);

}  // namespace baton
