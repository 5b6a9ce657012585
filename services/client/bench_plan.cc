#include "services/client/bench_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "kernels/models/distinct_experts.h"

namespace baton {
namespace {

constexpr int kMaxRows = 32;
constexpr int kMaxContext = 1 << 20;
constexpr int kMaxSteps = 1 << 20;

absl::StatusOr<std::vector<int>> Numbers(const CommandLine& line, const std::string& flag,
                                         int highest) {
  std::vector<int> numbers;
  for (absl::string_view part : absl::StrSplit(line.text(flag), ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 1 || number > highest) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag, ": wanted numbers from 1 to ",
                                                     highest, " and commas, found \"",
                                                     line.text(flag), "\""));
    }
    numbers.push_back(number);
  }
  return numbers;
}

// Experts that --routing draws from; 0 = the router decides.
absl::StatusOr<int> Pool(const CommandLine& line, int experts) {
  const std::string fallback = line.text("model").empty() ? "uniform" : "model";
  const std::string routing = line.given("routing") ? line.text("routing") : fallback;
  if (routing == "model") return 0;
  if (routing == "uniform") return experts;
  int pool = 0;
  if (absl::SimpleAtoi(routing, &pool) && pool >= 1 && pool <= experts) return pool;
  return absl::InvalidArgumentError(absl::StrCat("--routing: wanted model, uniform or 1 to ",
                                                 experts, " experts, found \"", routing, "\""));
}

// The same that --distinct-experts needs. To draw from all experts gives the most.
absl::StatusOr<int> PoolOfTarget(const CommandLine& line, int batch, const ModelConfig& config) {
  if (line.given("routing")) {
    return absl::InvalidArgumentError(
        "--distinct-experts: says what --routing says: wanted one of them, found both");
  }
  BATON_ASSIGN_OR_RETURN(const int64_t wanted,
                         line.integer("distinct-experts", 1, std::max(1, config.expert_count)));
  const int least = config.experts_per_token;
  const auto most =
      static_cast<int>(std::lround(ExpectedDistinctExperts(batch, least, config.expert_count)));
  if (wanted < least || wanted > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--distinct-experts: a batch of ", batch, ", each row with ", least, " of ",
        config.expert_count, " experts: wanted ", least, " to ", most, ", found ", wanted));
  }
  return PoolForDistinct(static_cast<int>(wanted), batch, config);
}

// The same points with the pool of each.
absl::StatusOr<std::vector<DecodePoint>> WithPools(const CommandLine& line,
                                                   std::vector<DecodePoint> points,
                                                   const ModelConfig& config) {
  for (DecodePoint& point : points) {
    BATON_ASSIGN_OR_RETURN(point.forced_experts, line.given("distinct-experts")
                                                     ? PoolOfTarget(line, point.batch, config)
                                                     : Pool(line, config.expert_count));
  }
  return points;
}

}  // namespace

int PoolForDistinct(int distinct, int batch, const ModelConfig& config) {
  const auto miss = [&](int pool) {
    return std::abs(ExpectedDistinctExperts(batch, config.experts_per_token, pool) - distinct);
  };
  int nearest = config.experts_per_token;
  for (int pool = nearest + 1; pool <= config.expert_count; ++pool) {
    if (miss(pool) < miss(nearest)) nearest = pool;
  }
  return nearest;
}

std::vector<FlagSpec> BenchPointFlags() {
  return {{"batch", "N,N", "1,8,32", "batch sizes to measure, one after the other"},
          {"context", "N", "8192", "tokens in the cache of every row"},
          {"contexts", "N,N", "", "of each row instead: one point with that many rows"},
          {"steps", "N", "64", "steps to measure"},
          {"routing", "HOW", "",
           "uniform over all experts, over N of them, or as the model's router decides (model); "
           "default: model with --model, else uniform"},
          {"distinct-experts", "N", "",
           "instead of --routing: uniform over as many as make a step's rows choose about N "
           "different experts a layer; the table says how many they chose"}};
}

absl::StatusOr<std::vector<DecodePoint>> BenchPoints(const CommandLine& line,
                                                     const ModelConfig& config) {
  BATON_ASSIGN_OR_RETURN(const int64_t steps, line.integer("steps", 3, kMaxSteps));
  BATON_ASSIGN_OR_RETURN(const int64_t context, line.integer("context", 1, kMaxContext));
  DecodePoint point{.context = static_cast<int>(context), .steps = static_cast<int>(steps)};
  if (line.given("contexts")) {
    BATON_ASSIGN_OR_RETURN(point.contexts, Numbers(line, "contexts", kMaxContext));
    point.batch = static_cast<int>(point.contexts.size());
    if (point.batch > kMaxRows) {
      return absl::InvalidArgumentError(
          absl::StrCat("--contexts: wanted at most ", kMaxRows, " of them, found ", point.batch));
    }
    return WithPools(line, {point}, config);
  }
  std::vector<DecodePoint> points;
  BATON_ASSIGN_OR_RETURN(const std::vector<int> batches, Numbers(line, "batch", kMaxRows));
  for (int batch : batches) {
    point.batch = batch;
    points.push_back(point);
  }
  return WithPools(line, std::move(points), config);
}

std::vector<FlagSpec> PrefillPointFlags() {
  return {{"lengths", "N,N", "512,1024,2048,4096,8192,16384,32768", "prompt lengths to measure"},
          {"pack", "N", "", "prompts of N tokens instead, as many as give each length"}};
}

absl::StatusOr<std::vector<PrefillPoint>> PrefillPoints(const CommandLine& line) {
  BATON_ASSIGN_OR_RETURN(const std::vector<int> lengths, Numbers(line, "lengths", kMaxContext));
  int64_t pack = 0;
  if (line.given("pack")) {
    BATON_ASSIGN_OR_RETURN(pack, line.integer("pack", 1, kMaxContext));
  }
  std::vector<PrefillPoint> points;
  for (int length : lengths) {
    if (pack == 0) {
      points.push_back({.length = length});
    } else {
      points.push_back({.length = static_cast<int>(pack),
                        .count = std::max(1, length / static_cast<int>(pack))});
    }
  }
  return points;
}

}  // namespace baton
