#include "services/client/length_distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr double kMaxSigma = 4;

absl::Status Bad(const std::string& text, uint32_t highest) {
  return absl::InvalidArgumentError(absl::StrCat(
      "wanted N, uniform:LOWEST:HIGHEST or lognormal:MEDIAN:SIGMA:MOST, each *WEIGHT if need be, "
      "with + between several and lengths from 1 to ",
      highest, ", found \"", text, "\""));
}

bool ParseLength(absl::string_view text, uint32_t highest, uint32_t* length) {
  return absl::SimpleAtoi(text, length) && *length >= 1 && *length <= highest;
}

}  // namespace

double DrawUnit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

absl::StatusOr<LengthDistribution::Part> LengthDistribution::ParsePart(const std::string& text,
                                                                       uint32_t highest) {
  Part part;
  const std::vector<std::string> weighted = absl::StrSplit(text, '*');
  if (weighted.size() > 2) return Bad(text, highest);
  if (weighted.size() == 2 && !(absl::SimpleAtod(weighted[1], &part.weight) && part.weight > 0 &&
                                std::isfinite(part.weight))) {
    return Bad(text, highest);
  }
  const std::vector<std::string> words = absl::StrSplit(weighted[0], ':');
  bool good = false;
  if (words.size() == 1) {
    good = ParseLength(words[0], highest, &part.lowest);
    part.highest = part.lowest;
  } else if (words[0] == "uniform" && words.size() == 3) {
    good = ParseLength(words[1], highest, &part.lowest) &&
           ParseLength(words[2], highest, &part.highest) && part.lowest <= part.highest;
  } else if (words[0] == "lognormal" && words.size() == 4) {
    part.kind = Kind::kLognormal;
    good = absl::SimpleAtod(words[1], &part.median) && part.median >= 1 &&
           absl::SimpleAtod(words[2], &part.sigma) && part.sigma >= 0 && part.sigma <= kMaxSigma &&
           ParseLength(words[3], highest, &part.highest) && part.median <= part.highest;
  }
  if (!good) return Bad(text, highest);
  return part;
}

absl::StatusOr<LengthDistribution> LengthDistribution::Parse(const std::string& text,
                                                             uint32_t highest) {
  LengthDistribution distribution;
  for (absl::string_view part : absl::StrSplit(text, '+')) {
    BATON_ASSIGN_OR_RETURN(Part parsed, ParsePart(std::string(part), highest));
    distribution.parts_.push_back(parsed);
  }
  return distribution;
}

uint32_t LengthDistribution::Draw(std::mt19937_64& random) const {
  double total = 0;
  for (const Part& part : parts_) total += part.weight;
  double left = DrawUnit(random) * total;
  const Part* chosen = &parts_.back();
  for (const Part& part : parts_) {
    if (left < part.weight) {
      chosen = &part;
      break;
    }
    left -= part.weight;
  }
  if (chosen->kind == Kind::kUniform) {
    const double span = static_cast<double>(chosen->highest - chosen->lowest) + 1;
    return chosen->lowest + static_cast<uint32_t>(DrawUnit(random) * span);
  }
  // Box-Muller; 1 - u is never 0.
  const double radius = std::sqrt(-2 * std::log(1 - DrawUnit(random)));
  const double normal = radius * std::cos(2 * std::numbers::pi * DrawUnit(random));
  const double length = std::round(chosen->median * std::exp(chosen->sigma * normal));
  return static_cast<uint32_t>(std::clamp(length, 1.0, static_cast<double>(chosen->highest)));
}

uint32_t LengthDistribution::longest() const {
  uint32_t longest = 0;
  for (const Part& part : parts_) longest = std::max(longest, part.highest);
  return longest;
}

}  // namespace baton
