#include <cmath>

#include "gtest/gtest.h"
#include "kernels/cpu/expert_choice.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using GateUpOp = OpFixture;
using GateUpOpShared = SharedExpertOpFixture;

double GatedUnit(double gate, double up) { return gate / (1 + std::exp(-gate)) * up; }

TEST_F(GateUpOp, ComputesEveryChosenExpertOfEachRow) {
  FillX(1);
  for (int row = 0; row < kRows; ++row) FillRandom(buffers().router(1, row), 4);
  RunOp(OpKind::kGateUp, 1);
  std::vector<ExpertChoice> choices;
  for (int row = 0; row < kRows; ++row) {
    const std::vector<float> normed = Norm(1, row);
    ChooseExperts(model(), buffers().router(1, row), choices);
    for (int slot = 0; slot < 2; ++slot) {
      const ExpertWeights& expert = weights(1).experts[choices[slot].expert];
      for (int i = 0; i < 16; ++i) {
        EXPECT_NEAR(buffers().ffn_hidden(1, row)[slot * 16 + i],
                    GatedUnit(Dot(expert.gate, i, normed.data()), Dot(expert.up, i, normed.data())),
                    1e-5);
      }
    }
  }
}

TEST_F(GateUpOp, ComputesTheDenseNetwork) {
  FillX(0);
  RunOp(OpKind::kGateUp, 0);
  const std::vector<float> normed = Norm(0, 1);
  for (int i = 0; i < 48; ++i) {
    EXPECT_NEAR(
        buffers().ffn_hidden(0, 1)[i],
        GatedUnit(Dot(weights(0).gate, i, normed.data()), Dot(weights(0).up, i, normed.data())),
        1e-5);
  }
}

TEST_F(GateUpOpShared, PutsTheSharedExpertBehindTheRouted) {
  FillX(1);
  for (int row = 0; row < kRows; ++row) FillRandom(buffers().router(1, row), 4);
  RunOp(OpKind::kGateUp, 1);
  const std::vector<float> normed = Norm(1, 2);
  for (int i = 0; i < 16; ++i) {
    EXPECT_NEAR(
        buffers().ffn_hidden(1, 2)[32 + i],
        GatedUnit(Dot(weights(1).gate, i, normed.data()), Dot(weights(1).up, i, normed.data())),
        1e-5);
  }
}

}  // namespace
}  // namespace baton
