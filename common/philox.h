// Philox4x32-10: the counter-based generator behind sampling. A draw is a pure function of key and
// counter, so it does not depend on the batch, on timing or on the device. Source: Salmon, Moraes,
// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "common/generation.h"

namespace baton {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53u;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// 32 random bits to the middle of one of 2^23 equal parts of (0, 1): exact in float32, never 0
// or 1.
inline float UnitInterval(uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f;
}

// A standard Gumbel variate of a uniform one.
inline float GumbelFromUniform(float uniform) { return -std::log(-std::log(uniform)); }

// No Gumbel variate above is larger than this.
inline constexpr float kMaxGumbel = 16.64f;

// The four words that cover token ids 4 * group .. 4 * group + 3 for a token that will stand at
// `position` of its sequence (0 = the first token of the prompt).
inline PhiloxCounter SamplingWords(uint64_t seed, int position, uint32_t group) {
  return Philox4x32({group, static_cast<uint32_t>(position), 0, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// The Gumbel noise added to logit / temperature of `token`.
inline float SamplingNoise(uint64_t seed, int position, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  return GumbelFromUniform(UnitInterval(SamplingWords(seed, position, id / 4)[id % 4]));
}

}  // namespace baton
