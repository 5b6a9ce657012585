#include "kernels/prefill_benchmark_factory.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(PrefillBenchmarkFactory, SaysWhyItCannotMeasureHere) {
  const auto benchmark = MakePrefillBenchmark({.layers = 1, .points = {{.length = 64}}});
  if (benchmark.ok()) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(benchmark.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(benchmark.status().message()), testing::HasSubstr("wanted a"));
}

}  // namespace
}  // namespace baton
