// The router's decision for one row: which experts and with what weights. Pure.
#pragma once

#include <vector>

#include "kernels/cpu/cpu_model.h"

namespace baton {

struct ExpertChoice {
  int expert = 0;
  float weight = 0;
};

// The experts_per_token best of logits [expert_count], ties to the lowest id, by ascending id, with
// weights as Hugging Face's cohere2_moe gives them in the model's mode. `choices` is overwritten.
void ChooseExperts(const CpuModel& model, const float* logits, std::vector<ExpertChoice>& choices);

}  // namespace baton
