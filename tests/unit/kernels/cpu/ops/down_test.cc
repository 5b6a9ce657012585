#include "gtest/gtest.h"
#include "kernels/cpu/expert_choice.h"
#include "tests/unit/kernels/cpu/op_fixture.h"

namespace baton {
namespace {

using DownOp = OpFixture;
using DownOpShared = SharedExpertOpFixture;

TEST_F(DownOp, AddsAttentionAndWeightedExperts) {
  FillX(1);
  for (int row = 0; row < kRows; ++row) {
    FillRandom(buffers().router(1, row), 4);
    FillRandom(buffers().ffn_hidden(1, row), 32);
  }
  for (int worker = 0; worker < kWorkers; ++worker) {
    context(worker).kept_output().assign(16 * kRows, 0.5f);
  }
  RunOp(OpKind::kDown, 1);
  std::vector<ExpertChoice> choices;
  for (int row = 0; row < kRows; ++row) {
    ChooseExperts(model(), buffers().router(1, row), choices);
    for (int i = 0; i < 32; ++i) {
      double wanted = X(1, row)[i] + 0.5;
      for (int slot = 0; slot < 2; ++slot) {
        wanted += choices[slot].weight * Dot(weights(1).experts[choices[slot].expert].down, i,
                                             buffers().ffn_hidden(1, row) + slot * 16);
      }
      EXPECT_NEAR(X(2, row)[i], wanted, 1e-5);
    }
  }
}

// In layers that see all keys, here a dense one, OutputProj adds it later.
TEST_F(DownOp, KeepsItsPartForOutputProj) {
  for (int row = 0; row < kRows; ++row) FillRandom(buffers().ffn_hidden(0, row), 48);
  RunOp(OpKind::kDown, 0);
  for (int i = 0; i < 32; ++i) {
    const std::vector<float>& kept = context(i / 16).kept_output();
    ASSERT_EQ(kept.size(), 16u * kRows);
    EXPECT_NEAR(kept[2 * 16 + i % 16], Dot(weights(0).down, i, buffers().ffn_hidden(0, 2)), 1e-5);
  }
}

TEST_F(DownOpShared, AveragesWithTheSharedExpert) {
  FillX(1);
  for (int row = 0; row < kRows; ++row) {
    FillRandom(buffers().router(1, row), 4);
    FillRandom(buffers().ffn_hidden(1, row), 48);
  }
  for (int worker = 0; worker < kWorkers; ++worker) {
    context(worker).kept_output().assign(16 * kRows, 0.0f);
  }
  RunOp(OpKind::kDown, 1);
  std::vector<ExpertChoice> choices;
  ChooseExperts(model(), buffers().router(1, 1), choices);
  for (int i = 0; i < 32; ++i) {
    double sum = Dot(weights(1).down, i, buffers().ffn_hidden(1, 1) + 32);
    for (int slot = 0; slot < 2; ++slot) {
      sum += choices[slot].weight * Dot(weights(1).experts[choices[slot].expert].down, i,
                                        buffers().ffn_hidden(1, 1) + slot * 16);
    }
    EXPECT_NEAR(X(2, 1)[i], X(1, 1)[i] + sum / 2, 1e-5);
  }
}

}  // namespace
}  // namespace baton
