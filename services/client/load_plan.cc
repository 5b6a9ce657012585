#include "services/client/load_plan.h"

#include <cmath>

namespace baton {

std::vector<PlannedRequest> PlanLoad(const LoadPlanOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<PlannedRequest> plan;
  double start_s = 0;
  for (uint32_t i = 0; i < options.request_count; ++i) {
    // Every number is drawn in every mode: the lengths do not depend on the rate.
    const double pause = -std::log(1 - DrawUnit(random));
    if (options.rate > 0) start_s += pause / options.rate;
    const uint32_t prompt_tokens = options.prompt.Draw(random);
    const uint32_t output_tokens = options.output.Draw(random);
    plan.push_back({.start_s = start_s,
                    .prompt_tokens = prompt_tokens,
                    .output_tokens = output_tokens,
                    .prompt_seed = random()});
  }
  return plan;
}

std::vector<TokenId> MakePrompt(const PlannedRequest& request, uint32_t vocab_size) {
  std::mt19937_64 random(request.prompt_seed);
  std::vector<TokenId> ids(request.prompt_tokens);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % vocab_size);
  return ids;
}

}  // namespace baton
