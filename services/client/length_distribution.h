// LengthDistribution: how long the prompts or answers of a load are. Plain values; drawn with a
// generator of the caller's, equally on every platform.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// In [0, 1).
double DrawUnit(std::mt19937_64& random);

class LengthDistribution {
 public:
  // One of
  //   N                             always N
  //   uniform:LOWEST:HIGHEST        both included
  //   lognormal:MEDIAN:SIGMA:MOST   of the underlying normal's standard deviation, cut to 1 .. MOST
  // or several with + between them, each with a weight if need be: 512*3+uniform:2048:32768.
  // InvalidArgument: what was found and what is wanted. `highest` bounds every length.
  static absl::StatusOr<LengthDistribution> Parse(const std::string& text, uint32_t highest);

  uint32_t Draw(std::mt19937_64& random) const;
  uint32_t longest() const;

 private:
  enum class Kind : uint8_t { kUniform, kLognormal };
  struct Part {
    Kind kind = Kind::kUniform;
    double weight = 1;
    uint32_t lowest = 1;
    uint32_t highest = 1;
    double median = 1;
    double sigma = 0;
  };

  static absl::StatusOr<Part> ParsePart(const std::string& text, uint32_t highest);

  std::vector<Part> parts_;
};

}  // namespace baton
