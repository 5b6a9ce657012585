#include "services/base/metrics.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(MetricsTest, AnEmptyAddressIsNoEndpoint) {
  Metrics metrics("decode");
  const auto port = metrics.Serve("");
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ(*port, 0);
}

TEST(MetricsTest, SameNameAndLabelsAreOneSeries) {
  Metrics metrics("test");
  metrics.AddCounter({"a_total", "help", {{"code", "OK"}}}).Increment();
  metrics.AddCounter({"a_total", "help", {{"code", "OK"}}}).Increment();
  EXPECT_EQ(metrics.AddCounter({"a_total", "help", {{"code", "OK"}}}).Value(), 2);
  EXPECT_EQ(metrics.AddCounter({"a_total", "help", {{"code", "NO"}}}).Value(), 0);
}

TEST(MetricsTest, ServesOnAPortOfItsOwnAndRefusesATakenOne) {
  Metrics metrics("test");
  const auto port = metrics.Serve("127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_GT(*port, 0);
  Metrics second("test");
  EXPECT_TRUE(absl::IsUnavailable(second.Serve("127.0.0.1:" + std::to_string(*port)).status()));
}

TEST(MetricsTest, BucketsRise) {
  for (const auto& buckets : {LatencyBuckets(), StepBuckets()}) {
    for (size_t i = 1; i < buckets.size(); ++i) EXPECT_LT(buckets[i - 1], buckets[i]);
  }
}

}  // namespace
}  // namespace baton
