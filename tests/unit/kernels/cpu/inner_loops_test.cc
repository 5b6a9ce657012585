// Also tests: kernels/cpu/inner_loops_avx2.cc
// Also tests: kernels/cpu/inner_loops_avx512.cc
// Also tests: kernels/cpu/inner_loops_portable.cc
#include "kernels/cpu/inner_loops.h"

#include <cmath>
#include <random>
#include <vector>

#include "common/bfloat16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

std::vector<const InnerLoops*> TablesThatRunHere() {
  std::vector<const InnerLoops*> tables;
  for (const char* name : {"portable", "avx2", "avx512"}) {
    const auto table = SelectInnerLoops(name);
    if (table.ok()) tables.push_back(*table);
  }
  return tables;
}

// A matrix in each stored type, and inputs.
struct DotInputs {
  DotInputs(int out_count, int columns, int row_count) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (int i = 0; i < out_count * columns; ++i) {
      const float value = RoundToBf16(normal(random));
      bf16.push_back(FloatToBf16(value));
      f32.push_back(value);
      // A power of two has the same value in binary16: sign, exponent 15 + n, no mantissa.
      const int exponent = static_cast<int>(random() % 9) - 4;
      f16.push_back(static_cast<uint16_t>((15 + exponent) << 10 | (random() % 2) << 15));
    }
    for (int row = 0; row < row_count; ++row) {
      inputs.emplace_back();
      for (int i = 0; i < columns; ++i) inputs.back().push_back(normal(random));
    }
  }
  std::vector<uint16_t> bf16, f16;
  std::vector<float> f32;
  std::vector<std::vector<float>> inputs;
};

using DotFunction = void (*)(const DotBlock&);

// [rows][outs], computed with the inputs [first, last) together.
std::vector<std::vector<float>> RunDot(DotFunction dot, const void* weights, int out_count,
                                       const std::vector<std::vector<float>>& inputs) {
  std::vector<std::vector<float>> results(inputs.size(), std::vector<float>(out_count));
  std::vector<const float*> in;
  std::vector<float*> out;
  for (size_t row = 0; row < inputs.size(); ++row) {
    in.push_back(inputs[row].data());
    out.push_back(results[row].data());
  }
  dot({.weights = weights,
       .out_count = out_count,
       .columns = static_cast<int>(inputs[0].size()),
       .inputs = in.data(),
       .row_count = static_cast<int>(inputs.size()),
       .outputs = out.data()});
  return results;
}

TEST(InnerLoops, DotsAgreeWithDoublePrecision) {
  for (const InnerLoops* loops : TablesThatRunHere()) {
    for (int columns : {1, 8, 48, 96, 131, 256}) {
      const DotInputs data(11, columns, 37);
      const auto bf16 = RunDot(loops->dot_bf16, data.bf16.data(), 11, data.inputs);
      const auto f16 = RunDot(loops->dot_f16, data.f16.data(), 11, data.inputs);
      const auto f32 = RunDot(loops->dot_f32, data.f32.data(), 11, data.inputs);
      EXPECT_EQ(bf16, f32) << loops->name;
      for (int row = 0; row < 37; ++row) {
        for (int out = 0; out < 11; ++out) {
          double wanted = 0;
          double wanted_f16 = 0;
          for (int i = 0; i < columns; ++i) {
            const double x = data.inputs[row][i];
            wanted += x * data.f32[out * columns + i];
            wanted_f16 += x * F16ToFloat(data.f16[out * columns + i]);
          }
          EXPECT_NEAR(f32[row][out], wanted, 2e-5 * std::sqrt(columns)) << loops->name;
          EXPECT_NEAR(f16[row][out], wanted_f16, 2e-4 * std::sqrt(columns)) << loops->name;
        }
      }
    }
  }
}

TEST(InnerLoops, ARowsSumsDoNotDependOnItsNeighbours) {
  for (const InnerLoops* loops : TablesThatRunHere()) {
    const DotInputs data(19, 100, 70);
    const auto together = RunDot(loops->dot_bf16, data.bf16.data(), 19, data.inputs);
    for (int row = 0; row < 70; row += 3) {
      const auto alone = RunDot(loops->dot_bf16, data.bf16.data(), 19, {data.inputs[row]});
      EXPECT_EQ(alone[0], together[row]) << loops->name << " row " << row;
      // Nor on which outputs are computed in the same call.
      const auto last = RunDot(loops->dot_bf16, data.bf16.data() + 18 * 100, 1, {data.inputs[row]});
      EXPECT_EQ(last[0][0], together[row][18]) << loops->name << " row " << row;
    }
  }
}

TEST(InnerLoops, AddsWeightedRows) {
  for (const InnerLoops* loops : TablesThatRunHere()) {
    const DotInputs data(5, 45, 1);
    std::vector<float> sums(45, 0.5f);
    std::vector<float> sums_f32(45, 0.5f);
    const float factors[] = {0.25f, -1.5f, 3.0f, 0.0f, 0.125f};
    loops->add_rows_bf16({data.bf16.data(), factors, 5, 45, sums.data()});
    loops->add_rows_f32({data.f32.data(), factors, 5, 45, sums_f32.data()});
    EXPECT_EQ(sums, sums_f32) << loops->name;
    for (int column = 0; column < 45; ++column) {
      double wanted = 0.5;
      for (int row = 0; row < 5; ++row)
        wanted += double{factors[row]} * data.f32[row * 45 + column];
      EXPECT_NEAR(sums[column], wanted, 1e-5) << loops->name;
    }
  }
}

TEST(InnerLoops, ExpIsAccurateAndEndsAtZero) {
  for (const InnerLoops* loops : TablesThatRunHere()) {
    std::vector<float> values;
    for (float x = -86.5f; x < 80.0f; x += 0.37f) values.push_back(x);
    std::vector<float> exps = values;
    loops->exp_shifted(exps.data(), exps.size(), 0.25f);
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = static_cast<double>(values[i] - 0.25f);
      EXPECT_NEAR(exps[i] / std::exp(x), 1.0, 3e-7) << loops->name << " at " << x;
    }
    float far[] = {-90.0f, -1e30f, 0.0f};
    loops->exp_shifted(far, 3, 0.0f);
    EXPECT_THAT(far, testing::ElementsAre(0.0f, 0.0f, 1.0f)) << loops->name;
  }
}

TEST(InnerLoops, RefusesUnknownInstructionSets) {
  EXPECT_EQ(SelectInnerLoops("sse9").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(SelectInnerLoops("auto").ok());
}

}  // namespace
}  // namespace baton
