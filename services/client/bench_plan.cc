#include "services/client/bench_plan.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"

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

// Experts that routing draws from; 0 = the router decides.
absl::StatusOr<int> Pool(const std::string& routing, int experts) {
  if (routing == "model") return 0;
  if (routing == "uniform") return experts;
  int pool = 0;
  if (absl::SimpleAtoi(routing, &pool) && pool >= 1 && pool <= experts) return pool;
  return absl::InvalidArgumentError(absl::StrCat("--routing: wanted model, uniform or 1 to ",
                                                 experts, " experts, found \"", routing, "\""));
}

}  // namespace

std::vector<FlagSpec> BenchPointFlags() {
  return {{"batch", "N,N", "1,8,32", "batch sizes to measure, one after the other"},
          {"context", "N", "8192", "tokens in the cache of every row"},
          {"contexts", "N,N", "", "of each row instead: one point with that many rows"},
          {"steps", "N", "64", "steps to measure"},
          {"routing", "HOW", "",
           "uniform over all experts, over N of them, or as the model's router decides (model); "
           "default: model with --model, else uniform"}};
}

absl::StatusOr<std::vector<DecodePoint>> BenchPoints(const CommandLine& line, int experts) {
  const std::string fallback = line.text("model").empty() ? "uniform" : "model";
  BATON_ASSIGN_OR_RETURN(const int pool,
                         Pool(line.given("routing") ? line.text("routing") : fallback, experts));
  BATON_ASSIGN_OR_RETURN(const int64_t steps, line.integer("steps", 3, kMaxSteps));
  BATON_ASSIGN_OR_RETURN(const int64_t context, line.integer("context", 1, kMaxContext));
  DecodePoint point{.context = static_cast<int>(context),
                    .steps = static_cast<int>(steps),
                    .forced_experts = pool};
  if (line.given("contexts")) {
    BATON_ASSIGN_OR_RETURN(point.contexts, Numbers(line, "contexts", kMaxContext));
    point.batch = static_cast<int>(point.contexts.size());
    if (point.batch > kMaxRows) {
      return absl::InvalidArgumentError(
          absl::StrCat("--contexts: wanted at most ", kMaxRows, " of them, found ", point.batch));
    }
    return std::vector<DecodePoint>{point};
  }
  std::vector<DecodePoint> points;
  BATON_ASSIGN_OR_RETURN(const std::vector<int> batches, Numbers(line, "batch", kMaxRows));
  for (int batch : batches) {
    point.batch = batch;
    points.push_back(point);
  }
  return points;
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
