#include "services/client/serve_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;

ServeReport Report() {
  ServeReport report{.load = "a load"};
  report.requests = {.completed = 8,
                     .seconds = 4,
                     .prompt_tokens = 1600,
                     .output_tokens = 400,
                     .first_token = {.count = 8, .mean = 11, .p50 = 12, .p99 = 13, .max = 14},
                     .inter_token = {.count = 392, .mean = 3, .p50 = 2, .p99 = 9, .max = 21},
                     .goodput = 1.5};
  return report;
}

TEST(ServeTableTest, SaysRatesLatenciesAndGoodput) {
  const std::string table = ServeTable(Report());
  EXPECT_THAT(table, HasSubstr("a load\n8 completed, 0 failed in 4.00 s: 2.00 requests/s, 100.0"));
  EXPECT_THAT(table, HasSubstr("goodput 1.50 requests/s"));
  EXPECT_THAT(table, testing::ContainsRegex("inter-token latency +392 +3.00 +2.00 +9.00 +21.00"));
  EXPECT_THAT(table, Not(HasSubstr("steady")));
  EXPECT_THAT(table, Not(HasSubstr("sent late")));
}

TEST(ServeTableTest, ShowsTheSteadyRowsApartAndWhatWentWrong) {
  ServeReport report = Report();
  report.steady = {.row_count = 4,
                   .alone = {.count = 100, .p99 = 4},
                   .beside = {.count = 200, .p99 = 6},
                   .failure = absl::UnavailableError("gone")};
  report.late_count = 3;
  report.requests.failed = 1;
  report.requests.first_failure = absl::ResourceExhaustedError("full");
  const std::string table = ServeTable(report);
  EXPECT_THAT(table, HasSubstr("inter-token of 4 steady, alone"));
  EXPECT_THAT(table, HasSubstr("p99 beside the load over p99 alone: 1.50"));
  EXPECT_THAT(table, HasSubstr("a steady row failed: UNAVAILABLE: gone"));
  EXPECT_THAT(table, HasSubstr("3 requests were sent late"));
  EXPECT_THAT(table, HasSubstr("first failure: RESOURCE_EXHAUSTED: full"));
}

TEST(ServeJsonTest, GivesTheSameNumbers) {
  ServeReport report = Report();
  report.steady = {.row_count = 4, .alone = {.count = 1, .p99 = 4}, .beside = {.p99 = 6}};
  const auto json = nlohmann::json::parse(ServeJson(report));
  EXPECT_EQ(json["completed"], 8);
  EXPECT_EQ(json["request_throughput"], 2);
  EXPECT_EQ(json["output_throughput"], 100);
  EXPECT_EQ(json["request_goodput"], 1.5);
  EXPECT_EQ(json["p99_ttft_ms"], 13);
  EXPECT_EQ(json["max_itl_ms"], 21);
  EXPECT_EQ(json["steady"]["beside_load"]["p99_itl_ms"], 6);
  EXPECT_EQ(json["steady"]["p99_ratio"], 1.5);
}

}  // namespace
}  // namespace baton
