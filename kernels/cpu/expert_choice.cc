#include "kernels/cpu/expert_choice.h"

#include <algorithm>
#include <cmath>

namespace baton {

void ChooseExperts(const CpuModel& model, const float* logits, std::vector<ExpertChoice>& choices) {
  const ModelConfig& config = model.config();
  choices.clear();
  for (int expert = 0; expert < config.expert_count; ++expert) {
    choices.push_back({expert, logits[expert]});
  }
  const auto better = [](const ExpertChoice& a, const ExpertChoice& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.expert < b.expert);
  };
  const auto last = choices.begin() + config.experts_per_token;
  std::partial_sort(choices.begin(), last, choices.end(), better);
  choices.erase(last, choices.end());
  float sum = 0;
  if (config.router == RouterKind::kSoftmax) {
    const float maximum = choices.front().weight;
    for (ExpertChoice& choice : choices) {
      choice.weight = std::exp(choice.weight - maximum);
      sum += choice.weight;
    }
    for (ExpertChoice& choice : choices) choice.weight = model.Round(choice.weight / sum);
  } else {
    for (ExpertChoice& choice : choices) {
      choice.weight = model.Round(1.0f / (1.0f + std::exp(-choice.weight)));
      sum += choice.weight;
    }
    if (config.norm_topk) {
      sum = model.Round(sum);
      for (ExpertChoice& choice : choices) choice.weight = model.Round(choice.weight / sum);
    }
  }
  std::sort(choices.begin(), choices.end(),
            [](const ExpertChoice& a, const ExpertChoice& b) { return a.expert < b.expert; });
}

}  // namespace baton
