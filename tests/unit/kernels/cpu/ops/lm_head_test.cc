#include <algorithm>
#include <cmath>

#include "common/philox.h"
#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using LmHeadOp = OpFixture;

TEST_F(LmHeadOp, GivesLogitsAndPartsOfTheirExpSum) {
  FillX(4);
  std::vector<float> logits(96);
  plan().sampled[1].logits = logits.data();
  RunOp(OpKind::kLmHead, 4);
  const std::vector<float> normed = Norm(4, 1);
  for (int token = 0; token < 96; ++token) {
    EXPECT_NEAR(logits[token], Dot(model().weights().head, token, normed.data()), 1e-4);
  }
  for (int unit = 0; unit < 12; ++unit) {
    const HeadPartial partial = buffers().head_partial(1, unit);
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += std::exp(logits[unit * 8 + i] - partial.maximum);
    EXPECT_NEAR(partial.sum, sum, 1e-5);
  }
}

TEST_F(LmHeadOp, EachWorkerKeepsItsBestToken) {
  FillX(4);
  std::vector<float> logits(96);
  plan().sampled[0].logits = logits.data();
  RunOp(OpKind::kLmHead, 4);
  for (int worker = 0; worker < kWorkers; ++worker) {
    const auto begin = logits.begin() + worker * 48;
    const auto best = std::max_element(begin, begin + 48);
    EXPECT_EQ(buffers().candidate(worker, 0).token, best - logits.begin());
    EXPECT_EQ(buffers().candidate(worker, 0).logit, *best);
  }
}

TEST_F(LmHeadOp, AddsTheNoiseOfSeedPositionAndToken) {
  FillX(4);
  std::vector<float> logits(96);
  plan().sampled[2].logits = logits.data();
  plan().sampled[2].sampling = {.temperature = 2.0f, .seed = 99};
  RunOp(OpKind::kLmHead, 4);
  // The row stands at 70: the token drawn will stand at 71.
  int best = 48;
  for (int token = 48; token < 96; ++token) {
    if (logits[token] / 2 + SamplingNoise(99, 71, token) >
        logits[best] / 2 + SamplingNoise(99, 71, best)) {
      best = token;
    }
  }
  EXPECT_EQ(buffers().candidate(1, 2).token, best);
}

}  // namespace
}  // namespace baton
