#include <algorithm>
#include <cmath>
#include <limits>

#include "common/philox.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/task_graph/graph_shape.h"

namespace baton {
namespace {

// Units computed at once: the logits of a pass stay in the cache.
constexpr uint32_t kPassUnits = 32;

// Maximum and exp-sum of one unit's logits [count]. The sum is no number if a logit is none or
// infinitely high, which the loops would not show.
HeadPartial Summarize(const CpuModel& model, const float* logits, int count) {
  const auto is_wrong = [](float logit) { return std::isnan(logit) || logit == INFINITY; };
  if (std::any_of(logits, logits + count, is_wrong)) return {.maximum = 0, .sum = NAN};
  HeadPartial partial{.maximum = *std::max_element(logits, logits + count)};
  float exps[kUnitRows];
  std::copy_n(logits, count, exps);
  model.loops().exp_shifted(exps, count, partial.maximum);
  for (int i = 0; i < count; ++i) partial.sum += exps[i];
  return partial;
}

// Neighbouring tokens of one row.
struct LogitSpan {
  TokenId first = 0;
  const float* logits = nullptr;  // [count]
  int count = 0;
};

// Takes the span's tokens into the best candidate. `position`: where the token drawn will stand.
void Consider(const SamplingParams& params, int position, const LogitSpan& span,
              HeadCandidate& best) {
  for (int i = 0; i < span.count; ++i) {
    const TokenId token = span.first + i;
    float key = span.logits[i];
    if (params.temperature > 0) {
      key /= params.temperature;
      // The noise is worth its cost only where it could win.
      if (best.token >= 0 && key + kMaxGumbel < best.key) continue;
      key += SamplingNoise(params.seed, position, token);
    }
    if (best.token < 0 || key > best.key) best = {key, span.logits[i], token};
  }
}

}  // namespace

void RunLmHead(WorkerContext& context, const Task& task) {
  const CpuModel& model = context.model();
  const StepPlan& plan = context.plan();
  const int sampled_count = static_cast<int>(plan.sampled.size());
  const int64_t vocab = context.config().vocab;
  if (sampled_count == 0) return;
  const auto& normed = context.Normed(task.layer, task.buffer_epoch);
  for (int i = 0; i < sampled_count; ++i) {
    context.buffers().candidate(context.worker(), i) = HeadCandidate{};
  }
  std::vector<float>& logits = context.scratch(0);
  auto& outputs = context.outputs();
  for (uint32_t begin = task.begin; begin < task.end; begin += kPassUnits) {
    const uint32_t end = std::min(task.end, begin + kPassUnits);
    const int64_t first = int64_t{begin} * kUnitRows;
    const int64_t count = std::min(int64_t{end} * kUnitRows, vocab) - first;
    logits.resize(size_t(sampled_count) * count);
    outputs.clear();
    for (int i = 0; i < sampled_count; ++i) outputs.push_back(&logits[size_t(i) * count]);
    model.Multiply({model.weights().head, first, count, normed, outputs});
    for (float& logit : logits) logit *= context.config().logit_scale;
    for (int i = 0; i < sampled_count; ++i) {
      const SampledRow& sampled = plan.sampled[i];
      if (sampled.logits != nullptr) std::copy_n(outputs[i], count, sampled.logits + first);
      for (uint32_t unit = begin; unit < end; ++unit) {
        const int64_t token = int64_t{unit} * kUnitRows;
        const float* unit_logits = outputs[i] + (token - first);
        const auto unit_count = static_cast<int>(std::min<int64_t>(kUnitRows, vocab - token));
        context.buffers().head_partial(i, unit) = Summarize(model, unit_logits, unit_count);
        Consider(sampled.sampling, plan.rows[sampled.row].position + 1,
                 {static_cast<TokenId>(token), unit_logits, unit_count},
                 context.buffers().candidate(context.worker(), i));
      }
    }
  }
}

}  // namespace baton
