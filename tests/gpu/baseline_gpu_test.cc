// The decode step as one kernel per operation computes what the megakernel computes, so that their
// ratio compares like with like.
// Also tests: kernels/cuda/baseline/baseline_decode.cc
// Also tests: kernels/cuda/baseline/baseline_decode_layers.cc
// Also tests: kernels/cuda/baseline/expert_products.cu, kernels/cuda/baseline/split_attention.cu
// Also tests: kernels/cuda/baseline/step_kernels.cu, kernels/cuda/bench/cuda_baseline_benchmark.cc
// Also tests: kernels/cuda/bench/noise_fill.cu
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/decode_benchmark_factory.h"
#include "kernels/models/checkpoint.h"

namespace baton {
namespace {

std::string SourceDir() {
  const char* dir = std::getenv("BATON_TEST_ROOT");
  return dir != nullptr ? dir : BATON_SOURCE_DIR;
}

class BaselineGpuTest : public testing::Test {
 protected:
  // Both measure `point` of the checkpoint in `directory`; every row's tokens are equal up to a
  // near tie, and the log-probabilities of equal tokens are close.
  void ExpectAgreement(const std::string& directory, const DecodePoint& point) {
    auto checkpoint = Checkpoint::Open(SourceDir() + "/" + directory);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    DecodeMeasurement measured[2];
    for (bool baseline : {false, true}) {
      auto benchmark = MakeDecodeBenchmark(
          {.baseline = baseline, .checkpoint = checkpoint->get(), .points = {point}});
      if (absl::IsFailedPrecondition(benchmark.status()))
        GTEST_SKIP() << "no CUDA device: " << benchmark.status();
      ASSERT_TRUE(benchmark.ok()) << benchmark.status();
      auto result = (*benchmark)->Measure(point, nullptr);
      ASSERT_TRUE(result.ok()) << result.status();
      measured[baseline] = *result;
    }
    Compare(point, measured[0], measured[1]);
    EXPECT_NEAR(measured[0].distinct_experts, measured[1].distinct_experts,
                0.05 * measured[0].distinct_experts);
  }

  static void Compare(const DecodePoint& point, const DecodeMeasurement& one,
                      const DecodeMeasurement& other) {
    ASSERT_EQ(one.sampled.size(), other.sampled.size());
    int equal = 0;
    double largest = 0;
    for (int row = 0; row < point.batch; ++row) {
      for (size_t at = row; at < one.sampled.size(); at += point.batch) {
        const double difference =
            std::abs(double(one.sampled[at].logprob) - other.sampled[at].logprob);
        // Of the step where the tokens part, too: there both chose one of two near-equals. Two bf16
        // runs of North Nano differ by 1 % of logits of up to 20.
        EXPECT_LT(difference, 0.3) << "row " << row << ", step " << at / point.batch;
        largest = std::max(largest, difference);
        if (one.sampled[at].token != other.sampled[at].token) break;
        ++equal;
      }
    }
    std::printf(
        "%d of %zu tokens equal before a row's first difference, largest difference of a "
        "log-probability %.3g\n",
        equal, one.sampled.size(), largest);
    EXPECT_GT(equal, static_cast<int>(one.sampled.size()) * 2 / 3);
  }
};

TEST_F(BaselineGpuTest, AgreesOnNorthNano) {
  ExpectAgreement(
      "deploy/models/north-nano",
      {.batch = 8, .context = 500, .steps = 16, .warm_up_steps = 2, .forced_experts = 0});
}

TEST_F(BaselineGpuTest, AgreesOnRaggedRows) {
  ExpectAgreement("deploy/models/north-nano", {.batch = 5,
                                               .contexts = {1, 63, 64, 130, 1900},
                                               .steps = 8,
                                               .warm_up_steps = 2,
                                               .forced_experts = 0});
}

TEST_F(BaselineGpuTest, DrawsTheSameExpertsWhereRoutingIsForced) {
  ExpectAgreement(
      "deploy/models/north-nano",
      {.batch = 32, .context = 200, .steps = 4, .warm_up_steps = 2, .forced_experts = 9});
}

}  // namespace
}  // namespace baton
