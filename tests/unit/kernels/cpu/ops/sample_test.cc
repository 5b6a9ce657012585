#include <cmath>

#include "gtest/gtest.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

class SampleOp : public OpFixture {
 protected:
  // Units that sum up to exp(logit) = 12 in all.
  void FillHead(int sampled, HeadCandidate first, HeadCandidate second) {
    for (int unit = 0; unit < 12; ++unit)
      buffers().head_partial(sampled, unit) = {-1.0f, std::exp(1.0f)};
    buffers().candidate(0, sampled) = first;
    buffers().candidate(1, sampled) = second;
  }
};

TEST_F(SampleOp, TakesTheWorkersBestAndItsLogprob) {
  for (int sampled = 0; sampled < kRows; ++sampled) {
    FillHead(sampled, {1.0f, 1.0f, 7}, {1.5f, 0.25f, 60});
  }
  RunOp(OpKind::kSample, 4);
  for (int sampled = 0; sampled < kRows; ++sampled) {
    EXPECT_EQ(buffers().result(sampled).token, 60);
    EXPECT_NEAR(buffers().result(sampled).logprob, 0.25 - std::log(12.0), 1e-6);
  }
}

TEST_F(SampleOp, ATieGoesToTheLowestId) {
  for (int sampled = 0; sampled < kRows; ++sampled) {
    FillHead(sampled, {1.5f, 1.5f, 7}, {1.5f, 1.5f, 60});
  }
  RunOp(OpKind::kSample, 4);
  EXPECT_EQ(buffers().result(1).token, 7);
}

TEST_F(SampleOp, SkipsAWorkerWithoutVocabulary) {
  for (int sampled = 0; sampled < kRows; ++sampled) FillHead(sampled, {}, {-5.0f, -5.0f, 60});
  RunOp(OpKind::kSample, 4);
  EXPECT_EQ(buffers().result(0).token, 60);
}

}  // namespace
}  // namespace baton
